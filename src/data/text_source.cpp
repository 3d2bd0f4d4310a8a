// A UTF-8 file as bytes. The model sees ids 1 … 255; id 0 ends a document and never occurs inside the file.
#include <algorithm>
#include <limits>

#include "data/sources.h"
#include "data/windows.h"
#include "util/error.h"
#include "util/files.h"
#include "util/philox.h"
#include "util/text.h"
#include "util/utf8.h"

namespace siamese {
namespace {

// Below four windows a "training set" is one passage learnt by heart; a file that small is a mistake.
constexpr int64_t kLeastTrainingWindows = 4;

// One pass when the file is opened, so that a picture or a UTF-16 file is refused and not learned.
void check_text(const std::string& file, std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t start = at;
    const char32_t code = next_code_point(text, at);
    if (code == 0) fail("{}: NUL byte at offset {}: not a text file (id 0 ends a document)", file, start);
    // Malformed input moves one byte; a real U+FFFD in the file has three.
    if (code == kReplacement && at == start + 1) {
      fail("{}: not UTF-8: byte 0x{:02X} at offset {} (iconv -t UTF-8 converts files)", file,
           static_cast<unsigned char>(text[start]), start);
    }
  }
}

class TextSource final : public Source {
 public:
  TextSource(const std::string& file, int64_t sequence_length, uint64_t seed, bool shuffle, Split split)
      : file_(file),
        map_(file),
        length_(sequence_length),
        seed_(seed),
        shuffle_(shuffle),
        split_(split == Split::tail ? find_split() : 0),
        chunks_(split == Split::tail ? count_chunks() : 0),
        tail_({{split_, size()}}, sequence_length, Windows::Rest::keep) {
    if (size() < 2) fail("{}: {} bytes are too few: validation needs at least 2 bytes", file, size());
    check_text(file_, text());
  }

  std::string describe() const override {
    const std::string validation =
        fmt::format("{} bytes validation", human_count(static_cast<double>(size() - split_)));
    if (chunks_ == 0) return fmt::format("text {}: {}", file_, validation);
    return fmt::format("text {}: {} bytes training ({} windows an epoch), {}", file_,
                       human_count(static_cast<double>(split_)), chunks_, validation);
  }
  int64_t vocab_size() const override { return 256; }
  bool bytes() const override { return true; }
  int64_t eos() const override { return 0; }

  void sample(int64_t index, std::span<int64_t> out) const override {
    if (chunks_ == 0) fail("{}: opened for validation, has no training samples", file_);
    check_request(index, std::numeric_limits<int64_t>::max(), out, length_);
    const TrainingTurn turn = training_turn(index, chunks_, seed_, shuffle_);
    copy(shift(turn.epoch) + turn.chunk * length_, out);
  }

  int64_t validation_windows() const override { return tail_.size(); }
  int64_t validation(int64_t index, std::span<int64_t> out) const override {
    check_request(index, tail_.size(), out, length_);
    const Window window = tail_[index];
    std::fill(out.begin(), out.end(), 0);
    copy(window.begin, out.first(static_cast<size_t>(window.count)));
    return window.count;
  }

 private:
  std::string_view text() const { return {reinterpret_cast<const char*>(map_.bytes().data()), map_.bytes().size()}; }
  int64_t size() const { return static_cast<int64_t>(map_.bytes().size()); }

  // Validation keeps one full window even after the split has moved up to three bytes to the next character.
  int64_t find_split() const {
    constexpr int64_t kMove = 3;
    const int64_t least = length_ + 1 + kMove;
    const int64_t needed = kLeastTrainingWindows * length_ + 1 + least;
    if (size() < needed) {
      fail("{}: {} bytes are too few: sequence_length {} needs at least {} bytes", file_, size(), length_, needed);
    }
    const auto continues = [this](int64_t at) { return (text()[static_cast<size_t>(at)] & 0xC0) == 0x80; };
    int64_t begin = validation_begin(size(), least);
    while (begin < size() && continues(begin)) ++begin;
    return begin;
  }

  // With a grid shifted by o < length, chunk c covers o + c·length … o + (c+1)·length; the last id must lie below
  // split for every o, so an epoch leaves out up to one window. Other epochs leave out other ids.
  int64_t count_chunks() const { return shuffle_ ? split_ / length_ - 1 : (split_ - 1) / length_; }

  // A new grid every epoch: the same text comes in other cuts, so the model does not always start at the same places.
  int64_t shift(int64_t epoch) const {
    if (!shuffle_) return 0;
    const RandomKey key(seed_, static_cast<uint64_t>(epoch), kDataOrder);
    return below(key.word(0), static_cast<uint32_t>(length_));
  }

  void copy(int64_t begin, std::span<int64_t> out) const {
    const auto from = text().substr(static_cast<size_t>(begin), out.size());
    std::transform(from.begin(), from.end(), out.begin(), [](char c) { return static_cast<unsigned char>(c); });
  }

  const std::string file_;
  const MappedFile map_;
  const int64_t length_;
  const uint64_t seed_;
  const bool shuffle_;
  const int64_t split_;   // first byte of validation
  const int64_t chunks_;  // training windows an epoch; 0: validation only
  const Windows tail_;
};

}  // namespace

std::unique_ptr<Source> make_text_source(const std::string& file, int64_t sequence_length, uint64_t seed, bool shuffle,
                                         Split split) {
  return std::make_unique<TextSource>(file, sequence_length, seed, shuffle, split);
}

}  // namespace siamese
