#include "data/source.h"

#include "data/sources.h"
#include "util/error.h"

namespace siamese {
namespace {

void check_length(int64_t sequence_length) {
  // The upper bound keeps all sizes far from overflow and costs nobody anything: it is 2^30 ids a window.
  if (sequence_length < 1 || sequence_length > (int64_t{1} << 30)) {
    fail("train.sequence_length: {} is not between 1 and 2^30", sequence_length);
  }
}

// "auto" goes by what is given; with nothing given, the bundled sentences need no file.
std::string resolve(const DataConfig& data) {
  if (data.source != "auto") return data.source;
  if (!data.text.empty() && !data.tokens.empty()) {
    fail("data.text and data.tokens are both given: say data.source: text or data.source: tokens");
  }
  return !data.text.empty() ? "text" : !data.tokens.empty() ? "tokens" : "sentences";
}

}  // namespace

std::vector<Problem> Source::problems(int64_t) const { return {}; }

std::unique_ptr<Source> make_source(const DataConfig& data, int64_t sequence_length, uint64_t seed) {
  check_length(sequence_length);
  const std::string kind = resolve(data);
  if (kind == "arithmetic") return make_arithmetic_source(sequence_length, seed);
  if (kind == "sentences") return make_sentences_source(sequence_length, seed);
  if (kind == "text") {
    if (data.text.empty()) fail("data.source: text needs data.text, a UTF-8 file");
    return make_text_source(data.text, sequence_length, seed, data.shuffle);
  }
  if (kind == "tokens") {
    if (data.tokens.empty()) fail("data.source: tokens needs data.tokens, a list of raw {} files", data.token_dtype);
    return make_token_source(data, sequence_length, seed);
  }
  fail("data.source: '{}' is none of auto, arithmetic, sentences, text, tokens", kind);
}

std::unique_ptr<Source> make_validation_source(const std::string& file, const std::string& dtype,
                                               int64_t sequence_length) {
  check_length(sequence_length);
  if (dtype == "text") return make_text_source(file, sequence_length, 0, false, Split::validation_only);
  if (dtype != "uint16" && dtype != "uint32") fail("{}: dtype '{}' is none of text, uint16, uint32", file, dtype);
  DataConfig data;
  data.validation_tokens = {file};
  data.token_dtype = dtype;
  return make_token_source(data, sequence_length, 0);
}

std::vector<int64_t> encode_bytes(std::string_view text) {
  std::vector<int64_t> ids;
  ids.reserve(text.size());
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

std::string decode_bytes(std::span<const int64_t> ids) {
  std::string text;
  text.reserve(ids.size());
  for (const int64_t id : ids) {
    if (id < 0 || id > 255) fail("id {} is not a byte", id);
    text.push_back(static_cast<char>(id));
  }
  return text;
}

}  // namespace siamese
