// Writing: names and shapes are checked before the first byte reaches the disk, so that what is written can be read
// again.
#include <nlohmann/json.hpp>
#include <set>

#include "io/safetensors.h"
#include "util/error.h"
#include "util/files.h"
#include "util/hash.h"
#include "util/text.h"

namespace siamese {
namespace {

constexpr size_t kAlignment = 64;  // a cache line, and more than any dtype needs

std::string quoted(const std::string& file, const std::string& text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    fail("{}: '{}' is not valid UTF-8", file, printable(text));
  }
}

std::string place_of(const std::string& file, const TensorToFetch& tensor) {
  return fmt::format("{}: tensor '{}'", file, printable(tensor.name));
}

uint64_t checked_size(const std::string& file, const TensorToFetch& tensor) {
  const std::string where = place_of(file, tensor);
  if (tensor.name == "__metadata__") fail("{}: this name is reserved", where);
  if (tensor.shape.size() > kMaxDimensions) fail("{}: more than {} dimensions", where, kMaxDimensions);
  const std::optional<uint64_t> size = tensor_size(tensor.dtype, tensor.shape);
  if (!size) fail("{}: the size of {} is negative or overflows", where, describe(tensor.dtype, tensor.shape));
  return *size;
}

void check_bytes(const std::string& file, const TensorToFetch& tensor, size_t given) {
  if (const uint64_t needed = checked_size(file, tensor); needed != given)
    fail("{}: {} bytes given, but {} needs {}", place_of(file, tensor), given, describe(tensor.dtype, tensor.shape),
         needed);
}

std::string metadata_entry(const std::string& file, const std::map<std::string, std::string>& metadata) {
  std::vector<std::string> fields;
  for (const auto& [key, value] : metadata) fields.push_back(quoted(file, key) + ":" + quoted(file, value));
  return fmt::format("\"__metadata__\":{{{}}}", join(fields, ","));
}

/// The length in 8 bytes, then the JSON, padded with the spaces the format allows at its end.
std::string make_header(const std::string& file, const std::vector<TensorToFetch>& tensors,
                        const std::map<std::string, std::string>& metadata) {
  std::vector<std::string> entries;
  if (!metadata.empty()) entries.push_back(metadata_entry(file, metadata));
  std::set<std::string> names;
  uint64_t begin = 0;
  for (const TensorToFetch& tensor : tensors) {
    const uint64_t end = begin + checked_size(file, tensor);
    if (!names.insert(tensor.name).second) fail("{}: tensor '{}' is given twice", file, printable(tensor.name));
    entries.push_back(fmt::format("{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                                  quoted(file, tensor.name), dtype_name(tensor.dtype), fmt::join(tensor.shape, ","),
                                  begin, end));
    begin = end;
  }
  std::string json = fmt::format("{{{}}}", join(entries, ","));
  uint64_t length = json.size() + sizeof length;
  length = (length + kAlignment - 1) / kAlignment * kAlignment - sizeof length;
  if (length > kMaxSafetensorsHeader) fail("{}: header length {} is above {}", file, length, kMaxSafetensorsHeader);
  json.resize(length, ' ');
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + json;
}

}  // namespace

std::string write_safetensors(const std::string& path, const std::vector<TensorToWrite>& tensors,
                              const std::map<std::string, std::string>& metadata) {
  std::vector<TensorToFetch> there;
  for (const TensorToWrite& t : tensors) {
    there.push_back({t.name, t.dtype, t.shape, [&t] { return t.bytes; }});
    check_bytes(printable(path, SIZE_MAX), there.back(), t.bytes.size());
  }
  return write_fetched(path, there, metadata);
}

std::string write_fetched(const std::string& path, const std::vector<TensorToFetch>& tensors,
                          const std::map<std::string, std::string>& metadata) {
  const std::string file_name = printable(path, SIZE_MAX), header = make_header(file_name, tensors, metadata);
  AtomicFile file(path);
  Xxh64 hash;
  const auto put = [&](std::span<const std::byte> bytes) {
    hash.update(bytes);
    file.write(bytes);
  };
  put(std::as_bytes(std::span(header)));
  for (const TensorToFetch& tensor : tensors) {
    const std::span<const std::byte> bytes = tensor.fetch();
    check_bytes(file_name, tensor, bytes.size());
    put(bytes);
  }
  file.commit();
  return hash.hex();
}

}  // namespace siamese
