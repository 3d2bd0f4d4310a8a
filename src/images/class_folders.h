// What lies in a folder of class folders, in an order that does not depend on the file system.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace siamese {

struct ClassFolders {
  std::string root;
  std::vector<std::string> classes;             // sorted
  std::vector<std::vector<std::string>> files;  // of each class, below its folder, sorted; none is empty
  std::vector<std::string> strays;              // files beside the class folders, sorted
  int64_t others = 0;                           // files in class folders that are no images
};

/// JPEG and PNG by extension, in any case; hidden files are nothing. Folders in class folders are looked through.
/// Throws Error where there is no class folder or one holds no image.
ClassFolders list_class_folders(const std::string& root);

/// Images that lie in a folder itself, sorted.
std::vector<std::string> list_images(const std::string& folder);

/// Whether `path` is a folder that itself holds a folder: a split of the data rather than a class.
bool holds_folders(const std::string& path);

}  // namespace siamese
