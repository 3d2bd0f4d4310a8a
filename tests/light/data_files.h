// Files for the data tests, and small things they all do.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "data/source.h"
#include "util/error.h"

namespace siamese {

/// A folder that is gone after the test.
class DataFolder {
 public:
  DataFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "siamese_data_XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp");
    path_ = pattern;
  }
  ~DataFolder() { std::filesystem::remove_all(path_); }
  DataFolder(const DataFolder&) = delete;
  DataFolder& operator=(const DataFolder&) = delete;

  std::string write(const std::string& name, const std::string& content) const {
    const std::string file = (path_ / name).string();
    std::ofstream(file, std::ios::binary) << content;
    return file;
  }

  /// `count` ids first, first + 1, … as little-endian numbers of `width` bytes.
  std::string write_ids(const std::string& name, int64_t first, int64_t count, int width) const {
    std::string content;
    for (int64_t id = first; id < first + count; ++id) {
      for (int byte = 0; byte < width; ++byte) content.push_back(static_cast<char>(id >> (8 * byte) & 0xFF));
    }
    return write(name, content);
  }

 private:
  std::filesystem::path path_;
};

inline std::vector<int64_t> sample(const Source& source, int64_t index, int64_t length) {
  std::vector<int64_t> ids(static_cast<size_t>(length) + 1, -1);
  source.sample(index, ids);
  return ids;
}

/// The real ids of a validation window; checks that the rest is padding.
inline std::vector<int64_t> validation(const Source& source, int64_t index, int64_t length) {
  std::vector<int64_t> ids(static_cast<size_t>(length) + 1, -1);
  const auto count = static_cast<size_t>(source.validation(index, ids));
  EXPECT_GE(count, 2u);
  for (size_t i = count; i < ids.size(); ++i) EXPECT_EQ(ids[i], 0);
  ids.resize(count);
  return ids;
}

/// What the Error says, or "" when nothing is thrown.
template <class Call>
std::string error_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace siamese
