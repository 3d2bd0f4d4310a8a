// What the bundled generators share: endless training text, a fixed set of validation windows, no files.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "data/draws.h"
#include "data/source.h"
#include "data/windows.h"

namespace siamese {

class GeneratedSource : public Source {
 public:
  GeneratedSource(int64_t sequence_length, uint64_t seed) : length_(sequence_length), seed_(seed) {}

  int64_t vocab_size() const override { return 256; }
  bool bytes() const override { return true; }
  int64_t eos() const override { return 0; }

  void sample(int64_t index, std::span<int64_t> out) const override {
    check_request(index, std::numeric_limits<int64_t>::max(), out, length_);
    fill(RandomKey(seed_, static_cast<uint64_t>(index), kDataText), Part::training, out);
  }

  int64_t validation_windows() const override { return 256; }
  /// Does not depend on the seed: losses of different runs are measured on the same text.
  int64_t validation(int64_t index, std::span<int64_t> out) const override {
    check_request(index, validation_windows(), out, length_);
    fill(RandomKey(0, static_cast<uint64_t>(index), kDataValidation), Part::validation, out);
    return length_ + 1;
  }

 protected:
  enum class Part { training, validation };
  /// Adds the next whole piece (a problem, a story) to `text`.
  virtual void append(Draws& draws, Part part, std::string& text) const = 0;

 private:
  // A window starts with a whole piece, as generation from an empty prompt does, and cuts its last one.
  void fill(const RandomKey& key, Part part, std::span<int64_t> out) const {
    Draws draws(key);
    std::string text;
    while (text.size() < out.size()) append(draws, part, text);
    for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<unsigned char>(text[i]);
  }

  const int64_t length_;
  const uint64_t seed_;
};

}  // namespace siamese
