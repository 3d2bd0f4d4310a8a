#include "train/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <vector>

#include "util/error.h"
#include "util/files.h"
#include "util/text.h"

namespace siamese {
namespace fs = std::filesystem;

bool RunFolder::holds_run(const std::string& path) {
  for (const char* name : {"recipe.yaml", "metrics.jsonl", "checkpoints"})
    if (fs::exists(fs::path(path) / name)) return true;
  return false;
}

RunFolder::RunFolder(const std::string& path, OpenMode mode) : path_(path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error || !fs::is_directory(path)) fail("--out {}: {}", path, error ? error.message() : "is not a folder");
  if (mode == OpenMode::fresh && holds_run(path))
    fail("--out {}: this folder holds a run; use --resume to continue it or --overwrite to begin anew", path);
  lock_ = ::open(file(".lock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644);
  if (lock_ < 0) fail("{}: {}", file(".lock"), std::strerror(errno));
  if (::flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    ::close(lock_);
    fail("--out {}: another process trains in this folder", path);
  }
}

void RunFolder::clear() {
  for (const char* name : {"metrics.jsonl", "checkpoints", "run.json", "products.txt", "recipe.yaml"})
    fs::remove_all(file(name));
  remove_pictures_after(-1);
}

void RunFolder::remove_pictures_after(int64_t step) {
  std::vector<fs::path> later;
  for (const auto& entry : fs::directory_iterator(path_)) {
    const std::string name = entry.path().filename().string();
    long long number = 0;
    if (std::sscanf(name.c_str(), "samples-%lld.png", &number) == 1 && number > step) later.push_back(entry.path());
  }
  for (const fs::path& p : later) fs::remove(p);
}

RunFolder::~RunFolder() {
  if (lock_ >= 0) ::close(lock_);
}

void RunFolder::store_recipe(const Recipe& recipe) { write_file_atomic(file("recipe.yaml"), to_yaml(recipe)); }

void require_same_run(const Recipe& now, const std::string& stored_yaml, const std::string& origin) {
  // Both texts come from to_yaml, so they have the same lines in the same order; a section is an unindented key.
  std::istringstream a(to_yaml(now)), b(to_yaml(parse_recipe(stored_yaml, origin)));
  const auto key_of = [](const std::string& line) {
    const size_t first = line.find_first_not_of(' ');
    return first == std::string::npos ? std::string() : line.substr(first, line.find(':') - first);
  };
  std::string x, y, section;
  while (std::getline(a, x) && std::getline(b, y)) {
    if (!x.empty() && x[0] != ' ' && x[0] != '#') section = key_of(x);
    // Steps, rates and intervals may change; what decides the data's position and the random draws may not.
    const std::string key = key_of(x);
    const bool loose = key == "workers" || key == "cache" || key == "corrupt" || key.starts_with("sample_");
    const bool fixed = (section == "train" && (key == "seed" || key == "batch_size" || key == "sequence_length")) ||
                       (!loose && (section == "model" || section == "data" || section == "augment" ||
                                   section == "distill" || section == "diffusion"));
    if (x != y && fixed)
      fail("the recipe differs from the run's in section '{}': '{}' now, '{}' in {}; use another --out for another run",
           section, x.substr(x.find_first_not_of(' ')), y.substr(y.find_first_not_of(' ')), origin);
  }
}

void require_same_classes(const std::vector<std::string>& now, const std::vector<std::string>& stored,
                          const std::string& origin) {
  if (stored.empty() || now == stored) return;
  if (now.size() != stored.size()) fail("the data has {} classes now, {} in {}", now.size(), stored.size(), origin);
  const auto at = std::mismatch(now.begin(), now.end(), stored.begin());
  fail("class {} of the data is '{}' now, '{}' in {}", at.first - now.begin(), printable(*at.first),
       printable(*at.second), origin);
}

}  // namespace siamese
