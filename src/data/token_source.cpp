// Raw little-endian ids, uint16 or uint32, in one or several files without a header.
#include <algorithm>
#include <cstring>
#include <limits>

#include "data/sources.h"
#include "data/windows.h"
#include "util/error.h"
#include "util/files.h"
#include "util/text.h"

namespace siamese {
namespace {

class TokenFile {
 public:
  TokenFile(const std::string& path, int64_t width, int64_t needed, int64_t sequence_length)
      : path_(path), map_(path), width_(width), count_(static_cast<int64_t>(map_.bytes().size()) / width) {
    const auto bytes = map_.bytes();
    constexpr std::string_view kNumpy = "\x93NUMPY";
    if (bytes.size() >= kNumpy.size() && std::memcmp(bytes.data(), kNumpy.data(), kNumpy.size()) == 0) {
      fail(
          "{}: has a NumPy header (written by np.save); expected are raw little-endian uint{} ids without a header, "
          "as array.tofile writes them",
          path, 8 * width);
    }
    if (bytes.size() % static_cast<size_t>(width) != 0) {
      fail("{}: {} bytes are not a multiple of {}: the file is cut off or not uint{}", path, bytes.size(), width,
           8 * width);
    }
    if (count_ < needed) {
      fail("{}: {} tokens are too few: sequence_length {} needs at least {} tokens", path, count_, sequence_length,
           needed);
    }
  }

  int64_t count() const { return count_; }

  /// Ids begin … begin + out.size() - 1; `vocab_size` 0: any id is right.
  void read(int64_t begin, int64_t vocab_size, std::span<int64_t> out) const {
    const std::byte* from = map_.bytes().data() + begin * width_;
    for (size_t i = 0; i < out.size(); ++i) {
      int64_t id = 0;  // byte by byte: right on every machine, and the compiler makes one load of it
      for (int64_t byte = 0; byte < width_; ++byte) id |= std::to_integer<int64_t>(*from++) << (8 * byte);
      if (vocab_size != 0 && id >= vocab_size) {
        fail("{}: id {} at token {} is not below model.vocab_size {}", path_, id, begin + static_cast<int64_t>(i),
             vocab_size);
      }
      out[i] = id;
    }
  }

 private:
  std::string path_;
  MappedFile map_;
  int64_t width_, count_;
};

int64_t id_width(const std::string& dtype) {
  if (dtype == "uint16") return 2;
  if (dtype == "uint32") return 4;
  fail("data.token_dtype: '{}' is neither uint16 nor uint32", dtype);
}

class TokenSource final : public Source {
 public:
  TokenSource(const DataConfig& data, int64_t sequence_length, uint64_t seed)
      : length_(sequence_length), seed_(seed), shuffle_(data.shuffle), eos_(data.eos_id) {
    const int64_t width = id_width(data.token_dtype);
    const bool tails = data.validation_tokens.empty();
    // Every file must give at least one window: one that is silently left out would be a surprise.
    const int64_t window = length_ + 1;
    for (const std::string& path : data.tokens) {
      const TokenFile& file = files_.emplace_back(path, width, tails ? 2 * window : window, length_);
      const int64_t begin = tails ? validation_begin(file.count(), window) : file.count();
      training_ranges_.push_back({0, begin});
      validation_ranges_.push_back({begin, file.count()});
    }
    for (const std::string& path : data.validation_tokens) {
      if (std::find(data.tokens.begin(), data.tokens.end(), path) != data.tokens.end()) {
        fail("{}: is both in data.tokens and in data.validation_tokens", path);
      }
      const TokenFile& file = files_.emplace_back(path, width, 2, length_);
      validation_ranges_.push_back({0, file.count()});
    }
    if (files_.empty()) fail("data.tokens: no file given");
    chunks_ = Windows(training_ranges_, length_, Windows::Rest::drop);
    tail_ = Windows(validation_ranges_, length_, Windows::Rest::keep);
  }

  std::string describe() const override {
    const std::string validation = fmt::format("{} ids validation", total(validation_ranges_));
    if (chunks_.size() == 0) return "tokens: " + validation;
    return fmt::format("tokens: {} file{}, {} ids training ({} windows an epoch), {}", training_ranges_.size(),
                       training_ranges_.size() == 1 ? "" : "s", total(training_ranges_), chunks_.size(), validation);
  }
  int64_t vocab_size() const override { return vocab_size_; }
  void set_vocab_size(int64_t size) override {
    if (size != 0 && eos_ >= size) fail("data.eos_id {} is not below model.vocab_size {}", eos_, size);
    vocab_size_ = size;
  }
  bool bytes() const override { return false; }
  int64_t eos() const override { return eos_; }

  void sample(int64_t index, std::span<int64_t> out) const override {
    if (chunks_.size() == 0) fail("tokens: opened for validation, has no training samples");
    check_request(index, std::numeric_limits<int64_t>::max(), out, length_);
    const Window window = chunks_[training_turn(index, chunks_.size(), seed_, shuffle_).chunk];
    files_[window.file].read(window.begin, vocab_size_, out);
  }

  int64_t validation_windows() const override { return tail_.size(); }
  int64_t validation(int64_t index, std::span<int64_t> out) const override {
    check_request(index, tail_.size(), out, length_);
    const Window window = tail_[index];
    std::fill(out.begin(), out.end(), 0);
    files_[window.file].read(window.begin, vocab_size_, out.first(static_cast<size_t>(window.count)));
    return window.count;
  }

 private:
  static std::string total(const std::vector<Range>& ranges) {
    int64_t sum = 0;
    for (const Range& range : ranges) sum += range.end - range.begin;
    return human_count(static_cast<double>(sum));
  }

  const int64_t length_;
  const uint64_t seed_;
  const bool shuffle_;
  const int64_t eos_;
  int64_t vocab_size_ = 0;
  std::vector<TokenFile> files_;  // training files, then validation files
  // By file: training has a range for the first files only, validation for all (empty for training files with no tail).
  std::vector<Range> training_ranges_, validation_ranges_;
  Windows chunks_{{}, 1, Windows::Rest::drop}, tail_{{}, 1, Windows::Rest::keep};
};

}  // namespace

std::unique_ptr<Source> make_token_source(const DataConfig& data, int64_t sequence_length, uint64_t seed) {
  return std::make_unique<TokenSource>(data, sequence_length, seed);
}

}  // namespace siamese
