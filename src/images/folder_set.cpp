// Class folders of JPEG and PNG files, as torchvision's ImageFolder has them, and how they are split.
#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>

#include "data/permutation.h"
#include "images/class_folders.h"
#include "images/codec.h"
#include "images/sets.h"
#include "util/error.h"
#include "util/text.h"

namespace siamese {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kValidateEvery = 20;

std::string shown(const std::string& path) { return printable(path, SIZE_MAX); }

struct FolderFile {
  int32_t label;
  std::string path;  // below the class folder: a million of them should not repeat the rest
};

class FolderSet final : public ImageSet {
 public:
  /// `root` / class / file; `classes` empty: one class, root / file.
  FolderSet(std::string root, std::vector<std::string> classes, std::vector<FolderFile> files, std::string note)
      : root_(std::move(root)), classes_(std::move(classes)), files_(std::move(files)), note_(std::move(note)) {
    if (classes_.empty()) {
      flat_ = true;
      classes_.push_back(fs::absolute(root_ + "/").lexically_normal().parent_path().filename().string());
    }
  }

  int64_t size() const override { return static_cast<int64_t>(files_.size()); }
  int64_t label(int64_t index) const override { return file(index).label; }
  Image load(int64_t index, int least_side) const override { return load_part(index, least_side, nullptr); }
  Image load_part(int64_t index, int least_side, const Needed& needed) const override {
    DecodeOptions options;
    options.least_side = least_side;
    options.needed = needed;
    return read_image(name(index), options);
  }
  std::string name(int64_t index) const override {
    const FolderFile& found = file(index);
    if (flat_) return (fs::path(root_) / found.path).string();
    return (fs::path(root_) / classes_[static_cast<size_t>(found.label)] / found.path).string();
  }
  const std::vector<std::string>& class_names() const override { return classes_; }
  std::string describe() const override {
    return fmt::format("folder {}: {} images of {} class{}{}", shown(root_), size(), classes_.size(),
                       classes_.size() == 1 ? "" : "es", note_);
  }

  // A few are decoded, evenly spread, because nothing but the pictures says how large they are.
  int64_t decoded_bytes(int least_side) const override {
    constexpr int64_t kProbes = 16;
    int64_t bytes = 0, read = 0;
    const int64_t probes = std::min(kProbes, size());
    for (int64_t i = 0; i < probes; ++i) {
      try {
        bytes += static_cast<int64_t>(load(i * size() / probes, least_side).pixels.size());
        ++read;
      } catch (const Error&) {
        // What to do about it is decided when a batch needs it.
      }
    }
    return read == 0 ? 0
                     : static_cast<int64_t>(static_cast<double>(bytes) / static_cast<double>(read) *
                                            static_cast<double>(size()));
  }

 private:
  const FolderFile& file(int64_t index) const {
    if (index < 0 || index >= size()) fail("{}: image {} of {}", shown(root_), index, size());
    return files_[static_cast<size_t>(index)];
  }

  std::string root_;
  std::vector<std::string> classes_;
  std::vector<FolderFile> files_;
  std::string note_;
  bool flat_ = false;
};

std::string note_of(const ClassFolders& folders) {
  std::string note;
  if (!folders.strays.empty()) {
    note += fmt::format("; {} file{} beside the class folders left out ({}{})", folders.strays.size(),
                        folders.strays.size() == 1 ? "" : "s", printable(folders.strays[0]),
                        folders.strays.size() == 1 ? "" : ", …");
  }
  if (folders.others > 0) note += fmt::format("; {} other files in class folders left out", folders.others);
  return note;
}

std::shared_ptr<const ImageSet> set_of(const ClassFolders& folders, const std::vector<std::string>& classes,
                                       const char* key) {
  std::vector<FolderFile> files;
  for (size_t c = 0; c < folders.classes.size(); ++c) {
    const auto found = std::lower_bound(classes.begin(), classes.end(), folders.classes[c]);
    if (found == classes.end() || *found != folders.classes[c]) {
      fail("{}: class {} ({}) is not among the {} classes of training", shown(folders.root),
           printable(folders.classes[c]), key, classes.size());
    }
    for (const std::string& file : folders.files[c]) {
      files.push_back({static_cast<int32_t>(found - classes.begin()), file});
    }
  }
  return std::make_shared<FolderSet>(folders.root, classes, std::move(files), note_of(folders));
}

// Every 20th image validates, counted through all classes one after the other, each class in an order of its own: every
// class gives its share, and files numbered in time or by scene are not cut at regular places. The choice must not
// depend on the run's seed: runs could not be compared, and a teacher would have seen what validates its student.
ImageSets split(const ClassFolders& folders) {
  std::vector<FolderFile> train, validation;
  int64_t total = 0, seen = 0;
  for (const auto& files : folders.files) total += static_cast<int64_t>(files.size());
  if (total < 2) fail("{}: {} image is too few to train and to validate", shown(folders.root), total);
  const int64_t first = std::min(kValidateEvery / 2, total - 1);
  for (size_t c = 0; c < folders.files.size(); ++c) {
    const std::vector<std::string>& files = folders.files[c];
    std::vector<bool> validates(files.size());
    const RandomKey key(0, c, kImageOrder);
    for (size_t i = 0; i < files.size(); ++i) {
      if (seen++ % kValidateEvery == first) validates[permute(i, files.size(), key)] = true;
    }
    for (size_t i = 0; i < files.size(); ++i) {
      (validates[i] ? validation : train).push_back({static_cast<int32_t>(c), files[i]});
    }
  }
  return {std::make_shared<FolderSet>(folders.root, folders.classes, std::move(train), note_of(folders)),
          std::make_shared<FolderSet>(folders.root, folders.classes, std::move(validation), ", every 20th")};
}

/// The folder of a split below `root`, if there is one.
std::optional<std::string> split_folder(const std::string& root, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const std::string folder = (fs::path(root) / name).string();
    if (holds_folders(folder)) return folder;
  }
  return std::nullopt;
}

}  // namespace

ImageSets make_folder_sets(const DataConfig& data) {
  const auto train_folder = split_folder(data.images, {"train"});
  const ClassFolders train = list_class_folders(train_folder.value_or(data.images));
  if (!data.validation_images.empty()) {
    return {set_of(train, train.classes, "data.images"),
            set_of(list_class_folders(data.validation_images), train.classes, "data.validation_images")};
  }
  if (train_folder) {
    if (const auto other = split_folder(data.images, {"val", "valid", "validation", "test"})) {
      return {set_of(train, train.classes, "data.images"),
              set_of(list_class_folders(*other), train.classes, "data.images")};
    }
  }
  return split(train);
}

std::shared_ptr<const ImageSet> make_folder_set(const std::string& folder) {
  const std::vector<std::string> flat = list_images(folder);
  if (!flat.empty() && !holds_folders(folder)) {
    std::vector<FolderFile> files;
    for (const std::string& file : flat) files.push_back({0, file});
    return std::make_shared<FolderSet>(folder, std::vector<std::string>{}, std::move(files), "");
  }
  const ClassFolders folders = list_class_folders(folder);
  return set_of(folders, folders.classes, "folder");
}

}  // namespace siamese
