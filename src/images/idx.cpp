#include "images/idx.h"

#include <zlib.h>

#include <algorithm>

#include "util/error.h"
#include "util/text.h"

namespace siamese {
namespace {

// A side or count above this is a damaged header; it also keeps widths inside an int.
constexpr int64_t kMostSide = int64_t{1} << 30;

bool is_gzip(std::span<const uint8_t> bytes) { return bytes.size() >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b; }

struct Inflater {
  explicit Inflater(const std::string& name) {
    constexpr int kGzip = 15 + 16;  // largest window, gzip header and checksum
    if (inflateInit2(&stream, kGzip) != Z_OK) fail("{}: does not fit in memory", name);
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { inflateEnd(&stream); }
  z_stream stream{};
};

/// Unpacks up to `most` bytes. `whole`: there must not be more, and the checksum must be right.
std::vector<uint8_t> gunzip(std::span<const uint8_t> packed, size_t most, bool whole, const std::string& name) {
  Inflater inflater(name);
  z_stream& z = inflater.stream;
  std::vector<uint8_t> out, buffer(std::min<size_t>(most + 1, size_t{1} << 16));
  while (true) {
    if (z.avail_in == 0 && !packed.empty()) {
      const size_t part = std::min(packed.size(), size_t{1} << 30);  // zlib counts in 32 bits
      z.next_in = const_cast<Bytef*>(packed.data());
      z.avail_in = static_cast<uInt>(part);
      packed = packed.subspan(part);
    }
    z.next_out = buffer.data();
    z.avail_out = static_cast<uInt>(buffer.size());
    const int code = inflate(&z, Z_NO_FLUSH);
    out.insert(out.end(), buffer.data(), z.next_out);
    if (!whole && out.size() >= most) {
      out.resize(most);
      return out;
    }
    if (out.size() > most) fail("{}: holds more than the {} bytes its header announces", name, most);
    if (code == Z_STREAM_END) {
      if (z.avail_in == 0 && packed.empty()) return out;
      inflateReset(&z);  // gzip files may be put one behind the other
    } else if (code == Z_BUF_ERROR) {
      fail("{}: the compressed data ends early: not completely downloaded?", name);
    } else if (code != Z_OK) {
      fail("{}: the compressed data is damaged: {}", name, z.msg == nullptr ? "unknown" : z.msg);
    }
  }
}

size_t header_size(int dimensions) { return 4 + 4 * static_cast<size_t>(dimensions); }

std::vector<int64_t> parse_header(std::span<const uint8_t> bytes, int dimensions, const std::string& name) {
  const size_t needed = header_size(dimensions);
  if (bytes.size() < needed)
    fail("{}: {} bytes are too few for the {} bytes of an IDX header", name, bytes.size(), needed);
  const auto number = [&](size_t at) {
    return static_cast<uint32_t>(bytes[at]) << 24 | static_cast<uint32_t>(bytes[at + 1]) << 16 |
           static_cast<uint32_t>(bytes[at + 2]) << 8 | static_cast<uint32_t>(bytes[at + 3]);
  };
  constexpr uint32_t kBytes = 0x08;
  const uint32_t magic = kBytes << 8 | static_cast<uint32_t>(dimensions);
  if (number(0) != magic) {
    fail("{}: begins with 0x{:08x}, expected 0x{:08x}: an IDX file of bytes in {} dimension{}", name, number(0), magic,
         dimensions, dimensions == 1 ? "" : "s");
  }
  std::vector<int64_t> shape;
  for (int i = 0; i < dimensions; ++i) {
    shape.push_back(number(4 + 4 * static_cast<size_t>(i)));
    if (shape.back() < 1 || shape.back() > kMostSide) {
      fail("{}: size {} of dimension {} is not between 1 and {}", name, shape.back(), i, kMostSide);
    }
  }
  return shape;
}

size_t count_values(const std::vector<int64_t>& shape, const std::string& name) {
  uint64_t count = 1;
  for (const int64_t side : shape) {
    if (__builtin_mul_overflow(count, static_cast<uint64_t>(side), &count) || count > uint64_t{1} << 50) {
      fail("{}: the sizes in the header are too large", name);
    }
  }
  return count;
}

}  // namespace

IdxArray parse_idx(std::span<const uint8_t> bytes, int dimensions, const std::string& name) {
  const size_t header = header_size(dimensions);
  const bool packed = is_gzip(bytes);
  std::vector<uint8_t> unpacked;
  // The header first: it bounds what the rest may unpack to, so that a gzip bomb stays small.
  if (packed) unpacked = gunzip(bytes, header, false, name);
  IdxArray array{parse_header(packed ? unpacked : bytes, dimensions, name), {}};
  const size_t count = count_values(array.shape, name);
  if (packed) unpacked = gunzip(bytes, header + count, true, name);
  const std::span<const uint8_t> content = packed ? unpacked : bytes;
  if (content.size() != header + count) {
    fail("{}: {} bytes, but its header announces {}", name, content.size(), header + count);
  }
  array.values.assign(content.begin() + static_cast<std::ptrdiff_t>(header), content.end());
  return array;
}

}  // namespace siamese
