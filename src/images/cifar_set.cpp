// CIFAR-10 as its authors hand it out: data_batch_1 … 5.bin train, test_batch.bin validates, batches.meta.txt names.
#include <algorithm>
#include <array>
#include <filesystem>
#include <sstream>

#include "images/cifar.h"
#include "images/sets.h"
#include "util/error.h"
#include "util/files.h"
#include "util/text.h"

namespace siamese {

CifarRecords::CifarRecords(std::span<const uint8_t> bytes, const std::string& name) : bytes_(bytes) {
  if (bytes.empty() || bytes.size() % kCifarRecord != 0) {
    fail("{}: {} bytes are not a whole number of CIFAR-10 records of {} bytes; the last complete one is number {}",
         name, bytes.size(), kCifarRecord, size() - 1);
  }
  for (int64_t i = 0; i < size(); ++i) {
    if (label(i) >= kCifarClasses)
      fail("{}: record {}: label {}, expected 0 … {}", name, i, label(i), kCifarClasses - 1);
  }
}

Image CifarRecords::image(int64_t index) const {
  constexpr size_t kPlane = kCifarSide * kCifarSide;
  const std::span<const uint8_t> planes = record(index).subspan(1);
  Image image(kCifarSide, kCifarSide);
  for (size_t i = 0; i < kPlane; ++i) {
    for (size_t c = 0; c < 3; ++c) image.pixels[3 * i + c] = planes[c * kPlane + i];
  }
  return image;
}

namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kNames = {"airplane", "automobile", "bird",  "cat",  "deer",
                                         "dog",      "frog",       "horse", "ship", "truck"};

std::span<const uint8_t> as_numbers(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()};
}

struct CifarFile {
  explicit CifarFile(const std::string& file)
      : path(file), map(file), records(as_numbers(map.bytes()), printable(file, SIZE_MAX)) {}

  std::string path;
  MappedFile map;
  CifarRecords records;
};

class CifarSet final : public ImageSet {
 public:
  CifarSet(std::string folder, const std::vector<std::string>& files, std::vector<std::string> classes)
      : folder_(std::move(folder)), classes_(std::move(classes)) {
    for (const std::string& file : files) {
      files_.push_back(std::make_unique<CifarFile>((fs::path(folder_) / file).string()));
      size_ += files_.back()->records.size();
      ends_.push_back(size_);
    }
  }

  int64_t size() const override { return size_; }
  int64_t label(int64_t index) const override {
    const auto [file, record] = find(index);
    return file->records.label(record);
  }
  Image load(int64_t index, int) const override {
    const auto [file, record] = find(index);
    return file->records.image(record);
  }
  std::string name(int64_t index) const override {
    const auto [file, record] = find(index);
    return fmt::format("{}: record {}", file->path, record);
  }
  const std::vector<std::string>& class_names() const override { return classes_; }
  std::string describe() const override {
    return fmt::format("CIFAR-10 {}: {} images of {} classes in {} file{}", printable(folder_, SIZE_MAX), size_,
                       classes_.size(), files_.size(), files_.size() == 1 ? "" : "s");
  }
  int64_t decoded_bytes(int) const override { return size_ * static_cast<int64_t>(kCifarRecord - 1); }
  bool in_memory() const override { return true; }

 private:
  std::pair<const CifarFile*, int64_t> find(int64_t index) const {
    if (index < 0 || index >= size_) fail("{}: image {} of {}", printable(folder_, SIZE_MAX), index, size_);
    const auto end = std::upper_bound(ends_.begin(), ends_.end(), index);
    const CifarFile* file = files_[static_cast<size_t>(end - ends_.begin())].get();
    return {file, index - (*end - file->records.size())};
  }

  std::string folder_;
  std::vector<std::string> classes_;
  std::vector<std::unique_ptr<CifarFile>> files_;
  std::vector<int64_t> ends_;  // images up to and with file i
  int64_t size_ = 0;
};

// The archive unpacks to a folder of its own; the one above it is as good a name for the data.
std::string data_folder(const std::string& folder, const std::string& first_file) {
  const fs::path inner = fs::path(folder) / "cifar-10-batches-bin";
  if (!fs::exists(fs::path(folder) / first_file) && fs::exists(inner / first_file)) return inner.string();
  return folder;
}

void require_file(const std::string& folder, const std::string& file, const char* key) {
  if (fs::exists(fs::path(folder) / file)) return;
  fail("{}: no {} in this folder; {} must be a folder of CIFAR-10's binary version (cifar-10-batches-bin)",
       printable(folder, SIZE_MAX), file, key);
}

std::vector<std::string> read_class_names(const std::string& folder) {
  const std::string path = (fs::path(folder) / "batches.meta.txt").string();
  if (!fs::exists(path)) return kNames;
  std::istringstream lines(read_file(path, 1 << 16));
  std::vector<std::string> names;
  for (std::string line; std::getline(lines, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (!line.empty()) names.push_back(printable(line));
  }
  if (names.size() != kCifarClasses) {
    fail("{}: {} class names, expected {}, one a line", printable(path, SIZE_MAX), names.size(), kCifarClasses);
  }
  return names;
}

}  // namespace

ImageSets make_cifar_sets(const DataConfig& data) {
  std::vector<std::string> batches;
  for (int i = 1; i <= 5; ++i) batches.push_back(fmt::format("data_batch_{}.bin", i));
  const std::string folder = data_folder(data.images, batches[0]);
  for (const std::string& batch : batches) require_file(folder, batch, "data.images");

  const std::string test = "test_batch.bin";
  const bool own = data.validation_images.empty();
  const std::string other = own ? folder : data_folder(data.validation_images, test);
  require_file(other, test, own ? "data.images" : "data.validation_images");

  const std::vector<std::string> classes = read_class_names(folder);
  return {std::make_shared<CifarSet>(folder, batches, classes),
          std::make_shared<CifarSet>(other, std::vector{test}, classes)};
}

}  // namespace siamese
