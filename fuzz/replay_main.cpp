// Runs a fuzz target over stored inputs without libFuzzer, so that every compiler can replay the corpus as a test.
// Usage: replay FOLDER_OR_FILE...
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "util/files.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

namespace fs = std::filesystem;

void collect(const fs::path& path, std::vector<std::string>& files) {
  if (!fs::is_directory(path)) {
    files.push_back(path.string());
    return;
  }
  for (const auto& entry : fs::recursive_directory_iterator(path)) {
    if (entry.is_regular_file()) files.push_back(entry.path().string());
  }
}

void replay(const std::string& path) {
  const std::string content = siamese::read_file(path);
  // A copy of exactly this size: a std::string's spare room and final NUL would hide a read past the end.
  const auto bytes = std::make_unique<uint8_t[]>(content.size());
  std::copy(content.begin(), content.end(), bytes.get());
  LLVMFuzzerTestOneInput(bytes.get(), content.size());
}

}  // namespace

int main(int argc, char** argv) {
  std::string current;
  try {
    std::vector<std::string> files;
    for (int i = 1; i < argc; ++i) collect(argv[i], files);
    for (const std::string& file : files) replay(current = file);
    std::printf("replayed %zu inputs\n", files.size());
    // A wrong folder must not look like a passed test.
    return files.empty() ? 1 : 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", current.c_str(), error.what());
    return 1;
  }
}
