// libFuzzer target: whatever the bytes, the reader of CIFAR-10's records either throws Error or every record has a
// label below 10 and its own pixels.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>
#include <vector>

#include "images/cifar.h"
#include "require.h"
#include "util/error.h"

namespace {

void read_all(std::span<const uint8_t> bytes) {
  try {
    const siamese::CifarRecords records(bytes, "fuzz");
    require(records.size() > 0 && static_cast<size_t>(records.size()) * siamese::kCifarRecord == bytes.size());
    for (int64_t i = 0; i < records.size(); ++i) {
      require(records.label(i) >= 0 && records.label(i) < siamese::kCifarClasses);
      const siamese::Image image = records.image(i);
      const std::span<const uint8_t> record = bytes.subspan(static_cast<size_t>(i) * siamese::kCifarRecord + 1);
      for (int plane = 0; plane < 3; ++plane) {
        require(image.at(0, 0)[plane] == record[static_cast<size_t>(plane) * 1024]);
        require(image.at(31, 31)[plane] == record[static_cast<size_t>(plane) * 1024 + 1023]);
      }
    }
  } catch (const siamese::Error& error) {
    check_message(error.what());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  read_all({data, size});
  // Again as whole records: mutations seldom keep the length.
  std::vector<uint8_t> padded(data, data + size);
  padded.resize((size / siamese::kCifarRecord + 1) * siamese::kCifarRecord);
  read_all(padded);
  return 0;
}
