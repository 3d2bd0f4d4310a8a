// Token files as data: windows, order, split, vocabulary and errors.
#include <algorithm>
#include <set>

#include "data_files.h"

namespace siamese {
namespace {

DataConfig token_data(std::vector<std::string> files, const std::string& dtype = "uint16") {
  DataConfig data;
  data.tokens = std::move(files);
  data.token_dtype = dtype;
  return data;
}

TEST(TokenSource, EveryChunkOnceAnEpochOverSeveralFiles) {
  const DataFolder folder;
  for (const std::string dtype : {"uint16", "uint32"}) {
    const int width = dtype == "uint16" ? 2 : 4;
    const int64_t base = width == 4 ? 3'000'000'000 : 0;  // needs all four bytes
    // 1000 ids: 50 validation (5 %); 100 ids: 17 validation (one window). Training 950 → 59 windows, 83 → 5.
    const DataConfig data =
        token_data({folder.write_ids("a", base, 1000, width), folder.write_ids("b", base + 2000, 100, width)}, dtype);
    const auto source = make_source(data, 16, 3);
    std::vector<std::vector<int64_t>> orders;
    for (int64_t epoch = 0; epoch < 2; ++epoch) {
      std::vector<int64_t> starts;
      for (int64_t i = 0; i < 64; ++i) {
        const auto ids = sample(*source, epoch * 64 + i, 16);
        for (size_t j = 1; j < ids.size(); ++j) ASSERT_EQ(ids[j], ids[0] + static_cast<int64_t>(j));  // one file
        starts.push_back(ids[0] - base);
      }
      orders.push_back(starts);
      std::sort(starts.begin(), starts.end());
      for (int64_t i = 0; i < 64; ++i)
        ASSERT_EQ(starts[static_cast<size_t>(i)], i < 59 ? 16 * i : 2000 + 16 * (i - 59));
    }
    EXPECT_NE(orders[0], orders[1]);
    std::set<int64_t> seen;
    for (int64_t i = 0; i < source->validation_windows(); ++i) {
      for (const int64_t id : validation(*source, i, 16)) seen.insert(id - base);
    }
    std::set<int64_t> expected;
    for (int64_t id = 950; id < 1000; ++id) expected.insert(id);
    for (int64_t id = 2083; id < 2100; ++id) expected.insert(id);
    EXPECT_EQ(seen, expected);
  }
}

TEST(TokenSource, SeparateValidationFilesAndSequentialOrder) {
  const DataFolder folder;
  DataConfig data = token_data({folder.write_ids("a", 0, 100, 2)});
  data.validation_tokens = {folder.write_ids("v", 500, 20, 2), folder.write_ids("w", 700, 2, 2)};
  data.shuffle = false;
  const auto source = make_source(data, 16, 1);
  for (int64_t i = 0; i < 14; ++i) EXPECT_EQ(sample(*source, i, 16)[0], i % 6 * 16);  // 99 targets: 6 windows
  ASSERT_EQ(source->validation_windows(), 3);
  EXPECT_EQ(validation(*source, 0, 16).front(), 500);
  EXPECT_EQ(validation(*source, 1, 16), (std::vector<int64_t>{516, 517, 518, 519}));
  EXPECT_EQ(validation(*source, 2, 16), (std::vector<int64_t>{700, 701}));
  data.validation_tokens.push_back(data.tokens[0]);
  EXPECT_NE(error_of([&] { make_source(data, 16, 1); }).find("both in data.tokens and"), std::string::npos);
}

TEST(TokenSource, IdsMustFitTheVocabulary) {
  const DataFolder folder;
  DataConfig data = token_data({folder.write_ids("a", 0, 100, 2)});
  data.shuffle = false;
  const auto source = make_source(data, 16, 1);
  EXPECT_EQ(source->vocab_size(), 0);
  EXPECT_EQ(source->eos(), -1);
  EXPECT_FALSE(source->bytes());
  source->set_vocab_size(40);
  EXPECT_EQ(error_of([&] { sample(*source, 1, 16); }), "");
  EXPECT_EQ(error_of([&] { sample(*source, 2, 16); }),
            data.tokens[0] + ": id 40 at token 40 is not below model.vocab_size 40");
  EXPECT_EQ(error_of([&] { validation(*source, 0, 16); }),
            data.tokens[0] + ": id 83 at token 83 is not below model.vocab_size 40");
  data.eos_id = 40;
  EXPECT_NE(error_of([&] { make_source(data, 16, 1)->set_vocab_size(40); }).find("data.eos_id 40"), std::string::npos);
}

TEST(TokenSource, RefusesWrongFiles) {
  const DataFolder folder;
  const auto opened = [&](const std::string& file, const std::string& dtype) {
    return error_of([&] { make_source(token_data({file}, dtype), 16, 1); });
  };
  const std::string numpy = folder.write("n.npy", "\x93NUMPY" + std::string(200, 'x'));
  EXPECT_EQ(opened(numpy, "uint16"), numpy +
                                         ": has a NumPy header (written by np.save); expected are raw little-endian "
                                         "uint16 ids without a header, as array.tofile writes them");
  const std::string odd = folder.write("odd", std::string(101, 'x'));
  EXPECT_EQ(opened(odd, "uint16"), odd + ": 101 bytes are not a multiple of 2: the file is cut off or not uint16");
  EXPECT_NE(opened(folder.write("even", std::string(202, 'x')), "uint32").find("multiple of 4"), std::string::npos);
  const std::string small = folder.write_ids("small", 0, 33, 2);
  EXPECT_EQ(opened(small, "uint16"), small + ": 33 tokens are too few: sequence_length 16 needs at least 34 tokens");
  EXPECT_EQ(opened(folder.write_ids("enough", 0, 34, 2), "uint16"), "");
  EXPECT_NE(opened(folder.write("empty", ""), "uint16").find("0 tokens are too few"), std::string::npos);
  EXPECT_NE(opened(small, "int8").find("data.token_dtype: 'int8'"), std::string::npos);
}

}  // namespace
}  // namespace siamese
