// libFuzzer target: whatever the bytes, the reader either throws Error or hands out views that lie in them.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "io/safetensors.h"
#include "require.h"
#include "util/error.h"

namespace {

void read_all(std::span<const std::byte> bytes) {
  try {
    const siamese::SafetensorsFile file(bytes, "fuzz");
    size_t total = 0;
    unsigned touched = 0;
    for (const auto& [name, view] : file.tensors()) {
      require(&file.at(name) == &view);
      require(view.bytes.size() == siamese::tensor_size(view.dtype, view.shape));
      for (const std::byte b : view.bytes) touched += static_cast<unsigned>(b);  // out of range: the sanitizer reports
      total += view.bytes.size();
    }
    uint64_t header = 0;
    std::memcpy(&header, bytes.data(), sizeof header);
    require(sizeof header + header + total == bytes.size());  // neither overlap nor gap nor rest
    for (const auto& [key, value] : file.metadata()) touched += static_cast<unsigned>(key.size() + value.size());
    const volatile unsigned sink = touched;  // keeps the reads above
    static_cast<void>(sink);
  } catch (const siamese::Error& error) {
    check_message(error.what());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  read_all(bytes);
  // Again with the true length of the header in front: mutations that move it would seldom pass the first check.
  if (size > sizeof(uint64_t)) {
    std::vector<std::byte> repaired(bytes.begin(), bytes.end());
    const auto last = std::find(repaired.rbegin(), repaired.rend() - sizeof(uint64_t), std::byte{'}'});
    const uint64_t header = static_cast<uint64_t>(repaired.rend() - last) - sizeof header;
    std::memcpy(repaired.data(), &header, sizeof header);
    read_all(repaired);
  }
  return 0;
}
