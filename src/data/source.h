// Where token ids come from. A sample is a pure function of (seed, index): the position in the data is one number,
// workers and ranks need no shared state, and resuming means counting on.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "recipe/recipe.h"

namespace siamese {

/// A held-out question with one right answer: the model must continue `prompt` with exactly `answer`.
struct Problem {
  std::string prompt;  // "12+7="
  std::string answer;  // "19\n"
};

class Source {
 public:
  virtual ~Source() = default;

  /// One line for the start-up print: what it is, how much of it there is.
  virtual std::string describe() const = 0;
  /// Ids lie in [0, vocab_size). 0: unknown (token files have no header to ask), the recipe must say.
  virtual int64_t vocab_size() const = 0;
  /// Tells a source of unknown vocabulary what the model has room for; from then on a larger id is an Error that names
  /// file and token. Checked while reading, because a scan of all files at the start could take hours. Byte sources
  /// know their ids and ignore it. Call it before a Loader is made.
  virtual void set_vocab_size(int64_t) {}
  /// Ids are bytes of text (vocabulary 256, id 0 ends a document), so text can be encoded and printed.
  virtual bool bytes() const = 0;
  /// The id that ends a document, or -1.
  virtual int64_t eos() const = 0;

  /// Fills `out` (sequence_length + 1 ids) with training sample `index`, 0 ≤ index without end.
  virtual void sample(int64_t index, std::span<int64_t> out) const = 0;

  /// Number of validation windows and their contents; returns how many ids of `out` are real, the rest is padding (0).
  virtual int64_t validation_windows() const = 0;
  virtual int64_t validation(int64_t index, std::span<int64_t> out) const = 0;

  /// The first `count` held-out problems (fewer if there are fewer); empty where the source has none.
  virtual std::vector<Problem> problems(int64_t count) const;
};

/// The source a recipe asks for. Throws Error naming file and key on anything unusable.
std::unique_ptr<Source> make_source(const DataConfig& data, int64_t sequence_length, uint64_t seed);

/// A text or token file (`dtype` as in the recipe, "text" for UTF-8) used whole as validation data:
/// `siamese eval --data`. Its `sample` throws.
std::unique_ptr<Source> make_validation_source(const std::string& file, const std::string& dtype,
                                               int64_t sequence_length);

/// Bytes of text as ids and back. Decoding replaces nothing: the bytes are what they are.
std::vector<int64_t> encode_bytes(std::string_view text);
std::string decode_bytes(std::span<const int64_t> ids);

}  // namespace siamese
