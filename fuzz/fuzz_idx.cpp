// libFuzzer target: whatever the bytes, plain or packed, the reader of IDX files either throws Error or hands out as
// many values as its shape says.
#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>
#include <vector>

#include "images/idx.h"
#include "require.h"
#include "util/error.h"

namespace {

/// Whether the bytes are a file with this many dimensions.
bool read(std::span<const uint8_t> bytes, int dimensions) {
  try {
    const siamese::IdxArray array = siamese::parse_idx(bytes, dimensions, "fuzz");
    require(array.shape.size() == static_cast<size_t>(dimensions));
    size_t values = 1;
    for (const int64_t side : array.shape) {
      require(side > 0);
      values *= static_cast<size_t>(side);
    }
    require(values == array.values.size());
    return true;
  } catch (const siamese::Error& error) {
    check_message(error.what());
    return false;
  }
}

std::vector<uint8_t> pack(std::span<const uint8_t> bytes) {
  z_stream z{};
  require(deflateInit2(&z, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::vector<uint8_t> packed(deflateBound(&z, bytes.size()) + 32);
  z.next_in = const_cast<Bytef*>(bytes.data());
  z.avail_in = static_cast<uInt>(bytes.size());
  z.next_out = packed.data();
  z.avail_out = static_cast<uInt>(packed.size());
  require(deflate(&z, Z_FINISH) == Z_STREAM_END);
  packed.resize(z.total_out);
  deflateEnd(&z);
  return packed;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span bytes(data, size);
  // Mutations seldom keep gzip's checksum, so the same content is tried packed as well: both must agree.
  const std::vector<uint8_t> packed = pack(bytes);
  const bool gzip = size >= 2 && data[0] == 0x1f && data[1] == 0x8b;
  for (const int dimensions : {1, 3}) {
    const bool plain = read(bytes, dimensions);
    require(gzip || read(packed, dimensions) == plain);
  }
  return 0;
}
