// JPEG files of the size and weight of photographs, drawn by the bundled generator, in class folders.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace siamese {

inline constexpr int kPhotoWidth = 500, kPhotoHeight = 375, kPhotoQuality = 90;

/// Writes `count` files below `folder` (those of the right name that are there already are kept), in class folders, on
/// `threads` threads. Returns their paths. What a file holds depends on its number alone.
std::vector<std::string> write_photo_files(const std::string& folder, int64_t count, int64_t threads);

/// A folder of its own for files that nobody wants to keep.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace siamese
