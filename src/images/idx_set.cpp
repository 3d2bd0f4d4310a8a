// MNIST, Fashion-MNIST and their kin: a folder with an IDX file of images and one of labels for each split.
#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>

#include "images/idx.h"
#include "images/sets.h"
#include "util/error.h"
#include "util/files.h"
#include "util/text.h"

namespace siamese {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kDigits = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
const std::vector<std::string> kFashion = {"T-shirt/top", "trouser", "pullover", "dress", "coat",
                                           "sandal",      "shirt",   "sneaker",  "bag",   "ankle boot"};

std::string shown(const fs::path& path) { return printable(path.string(), SIZE_MAX); }

/// `part` is "train-images", `rank` "idx3". Sites disagree on what stands before "idx"; unpacked files come first
/// because they open faster.
std::string find_file(const fs::path& folder, const std::string& part, const std::string& rank, const char* key) {
  for (const char* packed : {"", ".gz"}) {
    for (const char separator : {'-', '.'}) {
      const fs::path path = folder / fmt::format("{}{}{}-ubyte{}", part, separator, rank, packed);
      if (fs::exists(path)) return path.string();
    }
  }
  fail("{}: no {}-{}-ubyte[.gz] in this folder, which {} names", shown(folder), part, rank, key);
}

IdxArray read_idx(const std::string& path, int dimensions) {
  const MappedFile map(path);
  return parse_idx({reinterpret_cast<const uint8_t*>(map.bytes().data()), map.bytes().size()}, dimensions, shown(path));
}

class IdxSet final : public ImageSet {
 public:
  /// `split`: train or t10k.
  IdxSet(const std::string& folder, const std::string& split, const char* key, std::vector<std::string> classes)
      : path_(find_file(folder, split + "-images", "idx3", key)), classes_(std::move(classes)) {
    const std::string label_path = find_file(folder, split + "-labels", "idx1", key);
    images_ = read_idx(path_, 3);
    labels_ = read_idx(label_path, 1).values;
    if (images_.shape[1] > kMostSide || images_.shape[2] > kMostSide) {
      fail("{}: images of {} x {} pixels, at most {} a side are accepted", shown(path_), images_.shape[2],
           images_.shape[1], kMostSide);
    }
    if (static_cast<int64_t>(labels_.size()) != size()) {
      fail("{}: {} labels for the {} images of {}", shown(label_path), labels_.size(), size(), shown(path_));
    }
    const auto wrong = std::find_if(labels_.begin(), labels_.end(), [&](uint8_t l) { return l >= classes_.size(); });
    if (wrong != labels_.end()) {
      fail("{}: record {}: label {}, expected 0 … {}", shown(label_path), wrong - labels_.begin(), *wrong,
           classes_.size() - 1);
    }
  }

  int64_t size() const override { return images_.shape[0]; }
  int64_t label(int64_t index) const override { return labels_[checked(index)]; }
  Image load(int64_t index, int) const override {
    Image image(static_cast<int>(images_.shape[2]), static_cast<int>(images_.shape[1]), 1);
    const size_t bytes = image.pixels.size();
    std::copy_n(images_.values.data() + checked(index) * bytes, bytes, image.pixels.data());
    return image;
  }
  std::string name(int64_t index) const override { return fmt::format("{}: record {}", path_, index); }
  const std::vector<std::string>& class_names() const override { return classes_; }
  std::string describe() const override {
    return fmt::format("IDX {}: {} grey images of {} x {} pixels, {} classes", shown(path_), size(), images_.shape[2],
                       images_.shape[1], classes_.size());
  }
  int64_t decoded_bytes(int) const override { return static_cast<int64_t>(images_.values.size()); }
  bool in_memory() const override { return true; }

 private:
  static constexpr int64_t kMostSide = 1 << 14;

  size_t checked(int64_t index) const {
    if (index < 0 || index >= size()) fail("{}: image {} of {}", shown(path_), index, size());
    return static_cast<size_t>(index);
  }

  std::string path_;
  std::vector<std::string> classes_;
  IdxArray images_;
  std::vector<uint8_t> labels_;
};

// The files do not say what they show; folders are called fashion-mnist (Debian) or FashionMNIST/raw (torchvision).
const std::vector<std::string>& class_names_for(const std::string& folder) {
  fs::path path = fs::absolute(folder).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  if (path.filename() == "raw") path = path.parent_path();
  std::string name = path.filename().string();
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name.find("fashion") != std::string::npos ? kFashion : kDigits;
}

}  // namespace

ImageSets make_idx_sets(const DataConfig& data) {
  const std::vector<std::string>& classes = class_names_for(data.images);
  const bool own = data.validation_images.empty();
  return {std::make_shared<IdxSet>(data.images, "train", "data.images", classes),
          std::make_shared<IdxSet>(own ? data.images : data.validation_images, "t10k",
                                   own ? "data.images" : "data.validation_images", classes)};
}

}  // namespace siamese
