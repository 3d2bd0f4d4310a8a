#include "io/safetensors.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>

#include "util/error.h"
#include "util/files.h"

namespace siamese {
namespace {

namespace fs = std::filesystem;

std::span<const std::byte> as_bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string with_length(uint64_t length, const std::string& rest) {
  std::string file(sizeof length, '\0');
  std::memcpy(file.data(), &length, sizeof length);
  return file + rest;
}

std::string make_file(const std::string& header, size_t data = 0) {
  return with_length(header.size(), header + std::string(data, 'd'));
}

/// One tensor 'x' with these fields.
std::string one(const std::string& fields, size_t data = 0) { return make_file("{\"x\":{" + fields + "}}", data); }

std::string error_of(const std::string& file) {
  try {
    const SafetensorsFile parsed(as_bytes_of(file), "FILE");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

/// The message must be one line, begin with the file and contain `part`.
void expect_error(const std::string& file, const std::string& part) {
  const std::string message = error_of(file);
  EXPECT_EQ(message.rfind("FILE: ", 0), 0U) << message;
  EXPECT_NE(message.find(part), std::string::npos) << "wanted: " << part << "\n   got: " << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  EXPECT_LT(message.size(), 500U);
}

class Safetensors : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "siamese_safetensors_XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    path_ = folder_ / "model.safetensors";
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string write_error(const std::vector<TensorToWrite>& tensors,
                          const std::map<std::string, std::string>& metadata = {}) {
    try {
      write_safetensors(path_, tensors, metadata);
    } catch (const Error& error) {
      return std::string(error.what()).substr(path_.size());
    }
    return "no error";
  }

  fs::path folder_;
  std::string path_;
};

const std::string kData = "0123456789abcdefghijklmnopqrstuvwxyz";

std::vector<TensorToWrite> sample() {
  return {{"z", DType::F32, {2, 3}, as_bytes_of(kData).first(24)},
          {"a", DType::BOOL, {}, as_bytes_of(kData).first(1)},
          {"empty", DType::I64, {3, 0}, {}},
          {"odd \n \"name\" ä", DType::BF16, {1, 1, 5}, as_bytes_of(kData).subspan(3, 10)}};
}

TEST_F(Safetensors, RoundTrip) {
  const std::map<std::string, std::string> metadata = {{"config", "{\"d\": 1}\n"}, {"", "ö"}};
  const std::string hash = write_safetensors(path_, sample(), metadata);
  EXPECT_EQ(hash, hash_file(path_));
  EXPECT_FALSE(fs::exists(path_ + ".tmp"));

  SafetensorsFile first(path_);
  const SafetensorsFile file(std::move(first));
  EXPECT_EQ(file.name(), path_);
  EXPECT_EQ(file.metadata(), metadata);
  ASSERT_EQ(file.tensors().size(), 4U);
  for (const TensorToWrite& tensor : sample()) {
    const TensorView& view = file.at(tensor.name);
    EXPECT_EQ(view.dtype, tensor.dtype);
    EXPECT_EQ(view.shape, tensor.shape);
    EXPECT_TRUE(std::equal(view.bytes.begin(), view.bytes.end(), tensor.bytes.begin(), tensor.bytes.end()));
  }
  EXPECT_EQ(reinterpret_cast<uintptr_t>(file.at("z").bytes.data()) % 64, 0U);  // the first one written
  EXPECT_EQ(file.at("a").bytes.data(), file.at("z").bytes.data() + 24);        // in the given order
}

TEST_F(Safetensors, EveryDTypeAndNoTensorsAtAll) {
  for (size_t i = 0; i < kDTypeNames.size(); ++i) {
    const auto dtype = static_cast<DType>(i);
    write_safetensors(path_, {{"t", dtype, {2}, as_bytes_of(kData).first(2 * dtype_size(dtype))}}, {});
    EXPECT_STREQ(dtype_name(SafetensorsFile(path_).at("t").dtype), kDTypeNames[i]);
  }
  write_safetensors(path_, {}, {});
  EXPECT_TRUE(SafetensorsFile(path_).tensors().empty());
}

TEST_F(Safetensors, AnAbsentTensorIsNamedWithItsNeighbour) {
  const std::string file = make_file(R"({"norm.weight":{"dtype":"U8","shape":[],"data_offsets":[0,1]}})", 1);
  const SafetensorsFile parsed(as_bytes_of(file), "FILE");
  try {
    parsed.at("norm.wieght");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "FILE: there is no tensor 'norm.wieght'; did you mean 'norm.weight'?");
  }
}

TEST_F(Safetensors, WriterRefusesWhatCouldNotBeRead) {
  const auto four = as_bytes_of(kData).first(4);
  EXPECT_EQ(write_error({{"x", DType::F32, {2}, four}}), ": tensor 'x': 4 bytes given, but F32 [2] needs 8");
  EXPECT_EQ(write_error({{"x", DType::U8, {-4}, four}}), ": tensor 'x': the size of U8 [-4] is negative or overflows");
  EXPECT_EQ(write_error({{"x", DType::U8, {0, INT64_MAX, 2}, {}}}),
            ": tensor 'x': the size of U8 [0, 9223372036854775807, 2] is negative or overflows");
  EXPECT_EQ(write_error({{"x", DType::U8, {4}, four}, {"x", DType::U8, {4}, four}}), ": tensor 'x' is given twice");
  EXPECT_EQ(write_error({{"__metadata__", DType::U8, {4}, four}}), ": tensor '__metadata__': this name is reserved");
  EXPECT_EQ(write_error({{"\xff", DType::U8, {4}, four}}), ": '\\xff' is not valid UTF-8");
  EXPECT_EQ(write_error({}, {{"k", "\xff"}}), ": '\\xff' is not valid UTF-8");
  EXPECT_EQ(write_error({{"x", DType::U8, std::vector<int64_t>(65, 1), four.first(1)}}),
            ": tensor 'x': more than 64 dimensions");
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(Safetensors, AFullDiskLeavesTheOldFile) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  write_safetensors(path_, sample(), {});
  fs::create_symlink("/dev/full", path_ + ".tmp");
  EXPECT_NE(write_error(sample()).find("the disk is full"), std::string::npos);
  EXPECT_FALSE(fs::is_symlink(path_ + ".tmp"));
  EXPECT_EQ(SafetensorsFile(path_).tensors().size(), 4U);
}

TEST_F(Safetensors, HeaderLength) {
  expect_error("", "0 bytes are too few");
  expect_error("1234567", "7 bytes are too few");
  expect_error(with_length(3, "{}"), "header length 3, but only 2 bytes follow");
  expect_error(with_length(100'000'001, "{}"), "header length 100000001 is above 100000000");
  expect_error(with_length(UINT64_MAX, "{}"), "header length 18446744073709551615 is above");
  expect_error(with_length(0, "{}"), "must be a JSON object");
}

TEST_F(Safetensors, Json) {
  for (const char* text : {"[]", "null", "1", "\"x\"", " {}", "\xef\xbb\xbf{}"}) {
    expect_error(make_file(text), "must be a JSON object and begin with '{'");
  }
  for (const char* text : {"{", "{}}", "{} x", "{\"x\"}", "{\"x\":}", "{\"x\":{\"dtype\":\"U8\"", "{\"\xff\":1}",
                           "{\"a\nb\":1}", "{\"\\ud800\":1}", "{'x':1}", "{/**/}", "{\"x\":NaN}", "{\"x\":1e999}"}) {
    expect_error(make_file(text), "header is not valid JSON: ");
  }
  expect_error(make_file(std::string("{}\0garbage", 10)), "contains a NUL byte");
  EXPECT_EQ(error_of(make_file("{}  \n ")), "no error");
}

TEST_F(Safetensors, DeepNesting) {
  const std::string arrays(1'000'000, '[');
  expect_error(make_file(arrays), "must be a JSON object");
  expect_error(make_file("{\"x\":" + arrays), "tensor 'x': must be an object with dtype, shape and data_offsets");
  expect_error(one("\"shape\":[" + arrays), "shape needs whole numbers from 0 to 2^63-1, not an array");
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"dtype\":";
  expect_error(make_file("{\"x\":" + objects), "tensor 'x': dtype must be a string, not an object");
}

TEST_F(Safetensors, Structure) {
  const std::string good = R"("dtype":"U8","shape":[],"data_offsets":[0,1])";
  ASSERT_EQ(error_of(one(good, 1)), "no error");
  expect_error(make_file(R"({"x":7})"), "tensor 'x': must be an object with dtype, shape and data_offsets, not 7");
  expect_error(make_file("{\"x\":{" + good + "},\"\\u0078\":{" + good + "}}", 1), "duplicate key 'x'");
  expect_error(one("\"shape\":[]," + good, 1), "tensor 'x': duplicate key 'shape'");
  expect_error(one("\"strides\":[]," + good, 1), "tensor 'x': unknown key 'strides'");
  expect_error(one(R"("shape":[],"data_offsets":[0,1])", 1), "tensor 'x': has no dtype");
  expect_error(one(R"("dtype":"U8","data_offsets":[0,1])", 1), "tensor 'x': has no shape");
  expect_error(one(R"("dtype":"U8","shape":[])", 1), "tensor 'x': has no data_offsets");
  expect_error(one(R"("dtype":"F8_E4M3")"), "tensor 'x': unknown dtype 'F8_E4M3' (known: F64, F32, ");
  expect_error(one(R"("dtype":"f32")"), "unknown dtype 'f32'");
  expect_error(one(R"("dtype":null)"), "tensor 'x': dtype must be a string, not null");
  expect_error(one(R"("shape":"[]")"), "tensor 'x': shape must be an array, not \"[]\"");
  expect_error(one(R"("data_offsets":{})"), "tensor 'x': data_offsets must be an array, not an object");
  expect_error(one(R"("data_offsets":[])"), "tensor 'x': data_offsets needs 2 entries");
  expect_error(one(R"("data_offsets":[0,1,2])"), "tensor 'x': data_offsets needs 2 entries");
}

TEST_F(Safetensors, Metadata) {
  expect_error(make_file(R"({"__metadata__":[]})"), "__metadata__ must be an object of strings, not an array");
  expect_error(make_file(R"({"__metadata__":null})"), "__metadata__ must be an object of strings, not null");
  expect_error(make_file(R"({"__metadata__":{"k":1}})"), "__metadata__: 'k' must be a string, not 1");
  expect_error(make_file(R"({"__metadata__":{"k":{}}})"), "__metadata__: 'k' must be a string, not an object");
  expect_error(make_file(R"({"__metadata__":{"k":"","k":""}})"), "__metadata__: duplicate key 'k'");
  expect_error(make_file(R"({"__metadata__":{},"__metadata__":{}})"), "duplicate key '__metadata__'");
}

TEST_F(Safetensors, Shapes) {
  for (const char* entry : {"-1", "-0", "1.0", "1e2", "true", "null", "\"1\"", "{}", "9223372036854775808",
                            "18446744073709551615", "99999999999999999999999"}) {
    const std::string array = std::string("[") + entry;
    expect_error(one("\"shape\":" + array), "tensor 'x': shape needs whole numbers from 0 to 2^63-1, not ");
    expect_error(one("\"data_offsets\":" + array), "tensor 'x': data_offsets needs whole numbers from 0 to 2^63-1");
  }
  const auto shaped = [](const std::string& shape) {
    return one("\"dtype\":\"F64\",\"shape\":" + shape + ",\"data_offsets\":[0,8]", 8);
  };
  EXPECT_EQ(error_of(shaped("[]")), "no error");
  expect_error(shaped("[9223372036854775807]"), "tensor 'x': the size of F64 [9223372036854775807] overflows");
  expect_error(shaped("[4294967296,4294967296]"), "overflows");  // 0 modulo 2^64
  expect_error(shaped("[0,4294967296,4294967296]"), "overflows");
  std::string ones = "[1";
  for (int i = 1; i < 64; ++i) ones += ",1";
  EXPECT_EQ(error_of(shaped(ones + "]")), "no error");
  expect_error(shaped(ones + ",1]"), "tensor 'x': shape has more than 64 entries");
}

TEST_F(Safetensors, Offsets) {
  const auto placed = [](int length, const std::string& offsets) {
    return "{\"dtype\":\"U8\",\"shape\":[" + std::to_string(length) + "],\"data_offsets\":" + offsets + "}";
  };
  const auto two = [&](const std::string& x, const std::string& y, size_t data) {
    return make_file("{\"x\":" + x + ",\"y\":" + y + "}", data);
  };
  expect_error(one(R"("dtype":"U8","shape":[2],"data_offsets":[2,0])", 2),
               "'x': offsets [2, 0] are in the wrong order");
  expect_error(one(R"("dtype":"U8","shape":[2],"data_offsets":[0,2])", 1),
               "tensor 'x': offsets [0, 2] go past the end of the data, which has 1 bytes");
  expect_error(one(R"("dtype":"F32","shape":[2,1],"data_offsets":[0,7])", 7),
               "tensor 'x': offsets [0, 7] hold 7 bytes, but F32 [2, 1] needs 8");
  EXPECT_EQ(error_of(two(placed(4, "[2,6]"), placed(2, "[0,2]"), 6)), "no error");  // any order in the header
  EXPECT_EQ(error_of(two(placed(0, "[2,2]"), placed(2, "[0,2]"), 2)), "no error");
  EXPECT_EQ(error_of(two(placed(2, "[0,2]"), placed(0, "[0,0]"), 2)), "no error");
  expect_error(two(placed(4, "[0,4]"), placed(4, "[2,6]"), 6), "tensor 'y': offsets [2, 6] overlap");
  expect_error(two(placed(4, "[0,4]"), placed(4, "[0,4]"), 4), "offsets [0, 4] overlap");
  expect_error(two(placed(4, "[0,4]"), placed(0, "[2,2]"), 4), "tensor 'y': offsets [2, 2] overlap");
  expect_error(two(placed(2, "[0,2]"), placed(2, "[3,5]"), 5), "tensor 'y': offsets [3, 5] leave a gap");
  expect_error(one(R"("dtype":"U8","shape":[2],"data_offsets":[1,3])", 3), "'x': offsets [1, 3] leave a gap");
  expect_error(one(R"("dtype":"U8","shape":[2],"data_offsets":[0,2])", 5), "3 bytes follow the last tensor");
  expect_error(make_file("{}", 1), "1 bytes follow the last tensor");
}

TEST_F(Safetensors, NamesInMessagesAreEscapedAndCut) {
  expect_error(make_file("{\"a\\n\\u001b\\u0000\":1}"), "tensor 'a\\x0a\\x1b\\x00': must be");
  expect_error(make_file("{\"" + std::string(1000, 'n') + "\":1}"), "tensor '" + std::string(80, 'n') + "…': must be");
  expect_error(make_file("{\"" + std::string(1000, 'n')), "header is not valid JSON: ");
}

TEST_F(Safetensors, DamagedFilesNeverCrash) {
  write_safetensors(path_, sample(), {{"key", "value"}});
  const std::string good = read_file(path_);
  for (size_t length = 0; length < good.size(); ++length) EXPECT_NE(error_of(good.substr(0, length)), "no error");
  std::mt19937 random(1);
  for (int round = 0; round < 20'000; ++round) {
    std::string damaged = good;
    for (uint32_t flips = random() % 4 + 1; flips > 0; --flips) damaged[random() % damaged.size()] ^= 1 << random() % 8;
    error_of(damaged);  // an Error or success: anything else fails this test
  }
}

TEST_F(Safetensors, GoldenFiles) {
  const char* const golden = SIAMESE_SOURCE_DIR "/tests/golden";
  int count = 0;
  for (const auto& entry : fs::recursive_directory_iterator(golden)) {
    if (entry.path().extension() != ".safetensors") continue;
    const SafetensorsFile file(entry.path().string());
    EXPECT_TRUE(file.metadata().contains("model")) << file.name();
    EXPECT_FALSE(file.tensors().empty()) << file.name();
    ++count;
  }
  EXPECT_GT(count, 0) << golden;
}

}  // namespace
}  // namespace siamese
