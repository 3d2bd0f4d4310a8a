// Reading: the JSON header is consumed event by event, so that no document tree is ever built. Whatever does not fit
// the format's three levels is refused where it begins; nesting depth and duplicate keys need no extra pass.
#include "io/safetensors.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "util/error.h"
#include "util/files.h"
#include "util/text.h"

namespace siamese {
namespace {

struct Entry {
  std::optional<DType> dtype;
  std::optional<std::vector<int64_t>> shape, offsets;
};

class HeaderReader : public nlohmann::json::json_sax_t {
 public:
  explicit HeaderReader(std::string file) : file_(std::move(file)) {}

  std::map<std::string, Entry> entries;
  std::map<std::string, std::string> metadata;

  bool null() override { refuse("null"); }
  bool boolean(bool value) override { refuse(value ? "true" : "false"); }
  // Only what is written with a minus comes here.
  bool number_integer(int64_t value) override { refuse(value == 0 ? "-0" : std::to_string(value)); }
  bool number_float(double, const std::string& digits) override { refuse(digits); }
  bool binary(binary_t&) override { refuse("binary"); }

  bool number_unsigned(uint64_t value) override {
    if (at_ != At::Array || value > uint64_t{INT64_MAX}) refuse(std::to_string(value));
    std::vector<int64_t>& array = key_ == "shape" ? *entry_.shape : *entry_.offsets;
    if (array.size() == kMaxDimensions) fail("{}: {} has more than {} entries", tensor(), key_, kMaxDimensions);
    array.push_back(static_cast<int64_t>(value));
    return true;
  }

  bool string(std::string& value) override {
    if (at_ == At::Metadata) {
      metadata.emplace(key_, value);
    } else if (at_ == At::Tensor && key_ == "dtype") {
      const auto found = std::find(kDTypeNames.begin(), kDTypeNames.end(), value);
      if (found == kDTypeNames.end()) {
        fail("{}: unknown dtype '{}' (known: {})", tensor(), printable(value), fmt::join(kDTypeNames, ", "));
      }
      entry_.dtype = static_cast<DType>(found - kDTypeNames.begin());
    } else {
      refuse("\"" + value + "\"");
    }
    return true;
  }

  bool start_object(size_t) override {
    if (at_ != At::Start && at_ != At::Top) refuse("an object");
    at_ = at_ == At::Start ? At::Top : name_ == "__metadata__" ? At::Metadata : At::Tensor;
    entry_ = Entry();
    return true;
  }

  bool key(std::string& key) override {
    if (at_ == At::Top) {
      const bool is_metadata = key == "__metadata__";
      if (is_metadata ? has_metadata_ : entries.contains(key)) fail("{}: duplicate key '{}'", file_, printable(key));
      has_metadata_ |= is_metadata;
      name_ = key;
    } else if (at_ == At::Metadata) {
      if (metadata.contains(key)) fail("{}: __metadata__: duplicate key '{}'", file_, printable(key));
    } else if (key == "dtype" || key == "shape" || key == "data_offsets") {
      if (has(key)) fail("{}: duplicate key '{}'", tensor(), key);
    } else {
      fail("{}: unknown key '{}' (known: dtype, shape, data_offsets)", tensor(), printable(key));
    }
    key_ = key;
    return true;
  }

  bool end_object() override {
    if (at_ == At::Tensor) {
      for (const char* needed : {"dtype", "shape", "data_offsets"}) {
        if (!has(needed)) fail("{}: has no {}", tensor(), needed);
      }
      entries.emplace(name_, std::move(entry_));
    }
    at_ = At::Top;  // the parser itself refuses anything after the outermost object
    return true;
  }

  bool start_array(size_t) override {
    if (at_ != At::Tensor || key_ == "dtype") refuse("an array");
    at_ = At::Array;
    (key_ == "shape" ? entry_.shape : entry_.offsets).emplace();
    return true;
  }

  bool end_array() override {
    if (key_ == "data_offsets" && entry_.offsets->size() != 2) fail("{}: data_offsets needs 2 entries", tensor());
    at_ = At::Tensor;
    return true;
  }

  bool parse_error(size_t, const std::string&, const nlohmann::json::exception& error) override {
    std::string_view what = error.what();  // "[json.exception.parse_error.101] parse error at line 1, ..."
    what.remove_prefix(std::min(what.size(), what.find("] ") + 2));
    fail("{}: header is not valid JSON: {}", file_, printable(what, 200));
  }

 private:
  enum class At { Start, Top, Metadata, Tensor, Array };

  std::string tensor() const { return fmt::format("{}: tensor '{}'", file_, printable(name_)); }

  bool has(std::string_view field) const {
    if (field == "dtype") return entry_.dtype.has_value();
    return (field == "shape" ? entry_.shape : entry_.offsets).has_value();
  }

  /// A value of a kind that has no place here.
  [[noreturn]] void refuse(const std::string& value) const {
    const std::string found = printable(value);
    if (at_ == At::Start) fail("{}: header must be a JSON object, not {}", file_, found);
    if (at_ == At::Array) fail("{}: {} needs whole numbers from 0 to 2^63-1, not {}", tensor(), key_, found);
    if (at_ == At::Metadata) fail("{}: __metadata__: '{}' must be a string, not {}", file_, printable(key_), found);
    if (at_ == At::Tensor) {
      fail("{}: {} must be {}, not {}", tensor(), key_, key_ == "dtype" ? "a string" : "an array", found);
    }
    if (name_ == "__metadata__") fail("{}: __metadata__ must be an object of strings, not {}", file_, found);
    fail("{}: must be an object with dtype, shape and data_offsets, not {}", tensor(), found);
  }

  std::string file_, name_, key_;
  At at_ = At::Start;
  bool has_metadata_ = false;
  Entry entry_;
};

HeaderReader read_header(std::span<const std::byte> bytes, const std::string& file) {
  const char* const text = reinterpret_cast<const char*>(bytes.data());
  if (bytes.empty() || text[0] != '{') fail("{}: header must be a JSON object and begin with '{{'", file);
  // The parser takes a NUL for the end of its input and would not look at what follows.
  if (std::memchr(text, 0, bytes.size())) fail("{}: header is not valid JSON: it contains a NUL byte", file);
  HeaderReader reader(file);
  nlohmann::json::sax_parse(text, text + bytes.size(), &reader);  // an error throws from within
  return reader;
}

/// Offsets that are ordered, in range, and as far apart as shape and dtype say.
TensorView checked_view(const std::string& tensor, const Entry& entry, std::span<const std::byte> data) {
  const DType dtype = *entry.dtype;
  const auto begin = static_cast<uint64_t>(entry.offsets->at(0)), end = static_cast<uint64_t>(entry.offsets->at(1));
  const std::string offsets = fmt::format("{}: offsets [{}, {}]", tensor, begin, end);
  if (begin > end) fail("{} are in the wrong order", offsets);
  if (end > data.size()) fail("{} go past the end of the data, which has {} bytes", offsets, data.size());
  const std::optional<uint64_t> size = tensor_size(dtype, *entry.shape);
  if (!size) fail("{}: the size of {} overflows", tensor, describe(dtype, *entry.shape));
  if (*size != end - begin) {
    fail("{} hold {} bytes, but {} needs {}", offsets, end - begin, describe(dtype, *entry.shape), *size);
  }
  return {dtype, *entry.shape, data.subspan(begin, end - begin)};
}

/// Sorted by offset, every tensor must begin where the one before it ends, and the last must end where the data does.
void check_layout(const std::map<std::string, Entry>& entries, int64_t data_size, const std::string& file) {
  std::vector<std::tuple<int64_t, int64_t, const std::string*>> order;
  for (const auto& [name, entry] : entries) order.emplace_back(entry.offsets->at(0), entry.offsets->at(1), &name);
  std::sort(order.begin(), order.end());
  int64_t expected = 0;
  for (const auto& [begin, end, name] : order) {
    if (begin != expected) {
      fail("{}: tensor '{}': offsets [{}, {}] {} byte {}, where the tensor before it ends", file, printable(*name),
           begin, end, begin < expected ? "overlap: they begin before" : "leave a gap: they begin after", expected);
    }
    expected = end;
  }
  if (expected != data_size) fail("{}: {} bytes follow the last tensor", file, data_size - expected);
}

}  // namespace

std::optional<uint64_t> tensor_size(DType dtype, const std::vector<int64_t>& shape) {
  int64_t size = static_cast<int64_t>(dtype_size(dtype));
  for (const int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(size, std::max<int64_t>(extent, 1), &size)) return std::nullopt;
  }
  return std::find(shape.begin(), shape.end(), 0) != shape.end() ? 0 : static_cast<uint64_t>(size);
}

std::string describe(DType dtype, const std::vector<int64_t>& shape) {
  return printable(fmt::format("{} [{}]", dtype_name(dtype), fmt::join(shape, ", ")));
}

struct SafetensorsFile::Impl {
  std::optional<MappedFile> mapping;
  std::string name;
  std::map<std::string, TensorView> tensors;
  std::map<std::string, std::string> metadata;

  void parse(std::span<const std::byte> bytes) {
    const std::string file = printable(name, SIZE_MAX);
    uint64_t length = 0;
    if (bytes.size() < sizeof length) fail("{}: {} bytes are too few for a safetensors file", file, bytes.size());
    std::memcpy(&length, bytes.data(), sizeof length);
    bytes = bytes.subspan(sizeof length);
    if (length > kMaxSafetensorsHeader) fail("{}: header length {} is above {}", file, length, kMaxSafetensorsHeader);
    if (length > bytes.size()) fail("{}: header length {}, but only {} bytes follow", file, length, bytes.size());
    HeaderReader header = read_header(bytes.first(length), file);
    const auto data = bytes.subspan(length);
    for (const auto& [tensor, entry] : header.entries) {
      tensors.emplace(tensor, checked_view(fmt::format("{}: tensor '{}'", file, printable(tensor)), entry, data));
    }
    check_layout(header.entries, std::ssize(data), file);
    metadata = std::move(header.metadata);
  }
};

SafetensorsFile::SafetensorsFile(const std::string& path) : impl_(std::make_unique<Impl>()) {
  impl_->name = path;
  impl_->parse(impl_->mapping.emplace(path).bytes());
}

SafetensorsFile::SafetensorsFile(std::span<const std::byte> bytes, const std::string& name)
    : impl_(std::make_unique<Impl>()) {
  impl_->name = name;
  impl_->parse(bytes);
}

SafetensorsFile::SafetensorsFile(SafetensorsFile&&) noexcept = default;
SafetensorsFile& SafetensorsFile::operator=(SafetensorsFile&&) noexcept = default;
SafetensorsFile::~SafetensorsFile() = default;

const std::map<std::string, TensorView>& SafetensorsFile::tensors() const { return impl_->tensors; }
const std::map<std::string, std::string>& SafetensorsFile::metadata() const { return impl_->metadata; }
const std::string& SafetensorsFile::name() const { return impl_->name; }

const TensorView& SafetensorsFile::at(const std::string& tensor) const {
  const auto found = tensors().find(tensor);
  if (found != tensors().end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [name, view] : tensors()) names.push_back(name);
  const std::string near = nearest(tensor, names);
  const std::string hint = near.empty() ? "" : fmt::format("; did you mean '{}'?", printable(near));
  fail("{}: there is no tensor '{}'{}", printable(name(), SIZE_MAX), printable(tensor), hint);
}

}  // namespace siamese
