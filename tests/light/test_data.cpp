// Text files as data, and the choice of a source.
#include <algorithm>
#include <numeric>
#include <set>

#include "data_files.h"

namespace siamese {
namespace {

constexpr int64_t kLength = 256;

DataConfig text_data(const std::string& file) {
  DataConfig data;
  data.text = file;
  return data;
}

// Every three bytes name their own position in base 36, so that a window says where it was cut.
std::string numbered_text(size_t size) {
  constexpr std::string_view kDigits = "0123456789abcdefghijklmnopqrstuvwxyz";
  std::string text;
  for (size_t i = 0; text.size() < size; ++i) {
    text += {kDigits[i / 1296 % 36], kDigits[i / 36 % 36], kDigits[i % 36]};
  }
  return text.substr(0, size);
}

TEST(TextSource, EveryChunkOnceAnEpochAndNoneFromValidation) {
  const DataFolder folder;
  const std::string text = numbered_text(20000);
  for (const bool shuffle : {true, false}) {
    DataConfig data = text_data(folder.write("a.txt", text));
    data.shuffle = shuffle;
    const auto source = make_source(data, kLength, 1);
    const int64_t chunks = shuffle ? 19000 / kLength - 1 : (19000 - 1) / kLength;
    std::set<size_t> shifts;
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      std::vector<size_t> starts;
      for (int64_t i = 0; i < chunks; ++i) {
        const std::string cut = decode_bytes(sample(*source, epoch * chunks + i, kLength));
        starts.push_back(text.find(cut));
        ASSERT_NE(starts.back(), std::string::npos);
        ASSERT_LE(starts.back() + cut.size(), 19000u);
      }
      EXPECT_EQ(std::is_sorted(starts.begin(), starts.end()), !shuffle);
      std::sort(starts.begin(), starts.end());
      shifts.insert(starts[0]);
      ASSERT_LT(starts[0], static_cast<size_t>(kLength));
      for (size_t i = 0; i < starts.size(); ++i) ASSERT_EQ(starts[i], starts[0] + i * kLength);
    }
    EXPECT_EQ(shifts.size(), shuffle ? 3u : 1u);
  }
}

TEST(TextSource, SampleIsAFunctionOfSeedAndIndex) {
  const DataFolder folder;
  const DataConfig data = text_data(folder.write("a.txt", numbered_text(20000)));
  const auto one = make_source(data, kLength, 1), again = make_source(data, kLength, 1),
             two = make_source(data, kLength, 2);
  int differ = 0;
  for (const int64_t index : {0, 7, 100, 100000}) {
    EXPECT_EQ(sample(*one, index, kLength), sample(*again, index, kLength));
    differ += sample(*one, index, kLength) != sample(*two, index, kLength) ? 1 : 0;
  }
  EXPECT_GE(differ, 3);
}

TEST(TextSource, ValidationIsTheWholeTailInOrder) {
  const DataFolder folder;
  const std::string text = numbered_text(20000);
  const auto source = make_source(text_data(folder.write("a.txt", text)), kLength, 1);
  std::string tail;
  for (int64_t i = 0; i < source->validation_windows(); ++i) {
    const std::string window = decode_bytes(validation(*source, i, kLength));
    tail += i == 0 ? window : window.substr(1);  // neighbours share an id
  }
  EXPECT_EQ(tail, text.substr(19000));
  EXPECT_THROW(validation(*source, source->validation_windows(), kLength), Error);
}

TEST(TextSource, SplitsBetweenCharacters) {
  const DataFolder folder;
  for (const std::string character : {"é", "€", "😀"}) {
    for (size_t lead = 0; lead < 4; ++lead) {  // moves the 95 % mark through the character
      std::string text(lead, 'x');
      while (text.size() < 12000) text += character;
      const auto source = make_source(text_data(folder.write("a.txt", text)), kLength, 1);
      const std::string first = decode_bytes(validation(*source, 0, kLength));
      EXPECT_EQ(first.substr(0, character.size()), character);
    }
  }
}

TEST(TextSource, TenKilobytesAreEnoughAndTheSmallestSizeIsExact) {
  const DataFolder folder;
  for (const size_t size : {10000, 1285}) {
    const auto source = make_source(text_data(folder.write("a.txt", numbered_text(size))), kLength, 1);
    EXPECT_EQ(validation(*source, 0, kLength).size(), 257u);
    for (int64_t i = 0; i < 200; ++i) sample(*source, i, kLength);
  }
  const std::string small = folder.write("small.txt", numbered_text(812));
  EXPECT_EQ(error_of([&] { make_source(text_data(small), kLength, 1); }),
            small + ": 812 bytes are too few: sequence_length 256 needs at least 1285 bytes");
  EXPECT_NE(error_of([&] { make_source(text_data(folder.write("b", numbered_text(1284))), kLength, 1); }), "");
  EXPECT_NE(error_of([&] { make_source(text_data(folder.write("empty", "")), kLength, 1); }), "");
}

TEST(TextSource, RefusesWhatIsNoText) {
  const DataFolder folder;
  const auto opened = [&](size_t at, const std::string& bytes) {
    std::string text = numbered_text(3000);
    text.replace(at, bytes.size(), bytes);
    return error_of([&] { make_source(text_data(folder.write("a.txt", text)), kLength, 1); });
  };
  EXPECT_EQ(opened(10, "\xEF\xBF\xBD"), "");  // U+FFFD itself is fine
  EXPECT_NE(opened(1234, std::string(1, '\0')).find("NUL byte at offset 1234"), std::string::npos);
  EXPECT_NE(opened(77, "\xFF").find("byte 0xFF at offset 77"), std::string::npos);
  EXPECT_NE(opened(0, "\xFF\xFE").find("offset 0"), std::string::npos);        // UTF-16
  EXPECT_NE(opened(50, "\xC0\x80").find("offset 50"), std::string::npos);      // overlong
  EXPECT_NE(opened(50, "\xED\xA0\x80").find("offset 50"), std::string::npos);  // surrogate
  EXPECT_NE(opened(50, "\xE2\x82z").find("offset 50"), std::string::npos);     // broken off
  EXPECT_NE(opened(2998, "\xE2\x82").find("offset 2998"), std::string::npos);  // cut by the end
  EXPECT_NE(error_of([&] { make_source(text_data("/nowhere/a.txt"), kLength, 1); }).find("/nowhere/a.txt"),
            std::string::npos);
}

TEST(Sources, AutoGoesByWhatIsGiven) {
  const DataFolder folder;
  DataConfig data;
  EXPECT_EQ(make_source(data, 16, 1)->describe().substr(0, 9), "sentences");
  data.text = folder.write("a.txt", numbered_text(1000));
  EXPECT_EQ(make_source(data, 16, 1)->describe().substr(0, 4), "text");
  data.tokens = {folder.write_ids("a", 0, 100, 2)};
  EXPECT_NE(error_of([&] { make_source(data, 16, 1); }).find("both given"), std::string::npos);
  data.text.clear();
  EXPECT_EQ(make_source(data, 16, 1)->describe().substr(0, 6), "tokens");
  data.source = "text";
  EXPECT_NE(error_of([&] { make_source(data, 16, 1); }).find("data.text"), std::string::npos);
  data.source = "txt";
  EXPECT_NE(error_of([&] { make_source(data, 16, 1); }).find("'txt' is none of"), std::string::npos);
  EXPECT_NE(error_of([&] { make_source(DataConfig{}, 0, 1); }).find("train.sequence_length: 0"), std::string::npos);
}

TEST(Sources, ValidationOnly) {
  const DataFolder folder;
  const std::string file = folder.write("a.txt", "Grüße an alle.");
  const auto text = make_validation_source(file, "text", 8);
  EXPECT_EQ(text->validation_windows(), 2);
  EXPECT_EQ(decode_bytes(validation(*text, 0, 8)) + decode_bytes(validation(*text, 1, 8)).substr(1), "Grüße an alle.");
  EXPECT_THROW(sample(*text, 0, 8), Error);
  const auto tokens = make_validation_source(folder.write_ids("t", 5, 3, 4), "uint32", 8);
  EXPECT_EQ(validation(*tokens, 0, 8), (std::vector<int64_t>{5, 6, 7}));
  EXPECT_THROW(sample(*tokens, 0, 8), Error);
  EXPECT_NE(error_of([&] { make_validation_source(file, "float", 8); }).find("dtype 'float'"), std::string::npos);
  EXPECT_NE(error_of([&] { make_validation_source(folder.write("x", "x"), "text", 8); }).find("1 bytes are too few"),
            std::string::npos);
}

TEST(Sources, BytesThereAndBack) {
  std::string all(256, '\0');
  std::iota(all.begin(), all.end(), '\0');
  const auto ids = encode_bytes(all);
  EXPECT_EQ(ids[200], 200);
  EXPECT_EQ(decode_bytes(ids), all);
  EXPECT_THROW(decode_bytes(std::vector<int64_t>{256}), Error);
  EXPECT_THROW(decode_bytes(std::vector<int64_t>{-1}), Error);
}

TEST(Sources, RefuseWrongRequests) {
  const auto source = make_source(DataConfig{}, 16, 1);
  std::vector<int64_t> small(16), right(17);
  EXPECT_THROW(source->sample(0, small), Error);
  EXPECT_THROW(source->sample(-1, right), Error);
  EXPECT_THROW(source->validation(256, right), Error);
}

}  // namespace
}  // namespace siamese
