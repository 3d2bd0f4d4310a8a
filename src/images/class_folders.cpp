#include "images/class_folders.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <system_error>

#include "util/error.h"
#include "util/text.h"

namespace siamese {
namespace {

namespace fs = std::filesystem;

std::string shown(const fs::path& path) { return printable(path.string(), SIZE_MAX); }

bool is_hidden(const fs::path& path) { return path.filename().native().starts_with('.'); }

bool is_image(const fs::path& path) {
  std::string extension = path.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return extension == ".jpg" || extension == ".jpeg" || extension == ".png";
}

// A symbolic link to nothing counts as a file: reading it fails then, with its name, and data.corrupt decides.
bool is_folder(const fs::directory_entry& entry) {
  std::error_code ignored;
  return entry.is_directory(ignored);
}

/// Calls `use` with every entry; errors name the folder.
template <class Iterator, class Use>
void for_each_entry(const fs::path& folder, Use use) {
  std::error_code error;
  Iterator at(folder, error);
  while (!error && at != Iterator()) {
    use(at);
    at.increment(error);
  }
  if (error) fail("{}: cannot read the folder: {}", shown(folder), error.message());
}

// Folders below a class folder are entered, links to folders are not: those could go round in circles.
std::vector<std::string> list_class(const fs::path& folder, int64_t& others) {
  std::vector<std::string> files;
  for_each_entry<fs::recursive_directory_iterator>(folder, [&](fs::recursive_directory_iterator& at) {
    if (is_hidden(at->path())) {
      at.disable_recursion_pending();
    } else if (is_folder(*at)) {
      return;
    } else if (is_image(at->path())) {
      files.push_back(at->path().lexically_relative(folder).string());
    } else {
      ++others;
    }
  });
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

bool holds_folders(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return false;
  bool found = false;
  for_each_entry<fs::directory_iterator>(
      path, [&](fs::directory_iterator& at) { found = found || (!is_hidden(at->path()) && is_folder(*at)); });
  return found;
}

std::vector<std::string> list_images(const std::string& folder) {
  std::vector<std::string> files;
  for_each_entry<fs::directory_iterator>(folder, [&](fs::directory_iterator& at) {
    if (is_hidden(at->path()) || is_folder(*at) || !is_image(at->path())) return;
    files.push_back(at->path().filename().string());
  });
  std::sort(files.begin(), files.end());
  return files;
}

ClassFolders list_class_folders(const std::string& root) {
  ClassFolders found;
  found.root = root;
  for_each_entry<fs::directory_iterator>(root, [&](fs::directory_iterator& at) {
    if (is_hidden(at->path())) return;
    (is_folder(*at) ? found.classes : found.strays).push_back(at->path().filename().string());
  });
  std::sort(found.classes.begin(), found.classes.end());
  std::sort(found.strays.begin(), found.strays.end());
  if (found.classes.empty()) {
    const bool flat =
        std::any_of(found.strays.begin(), found.strays.end(), [](const auto& file) { return is_image(file); });
    fail("{}: no class folders: images must lie in one folder a class{}", shown(root),
         flat ? ", not side by side in this one" : "");
  }
  for (const std::string& name : found.classes) {
    const fs::path folder = fs::path(root) / name;
    found.files.push_back(list_class(folder, found.others));
    if (found.files.back().empty()) {
      fail("{}: no JPEG or PNG image in this class folder; remove it or fill it", shown(folder));
    }
  }
  return found;
}

}  // namespace siamese
