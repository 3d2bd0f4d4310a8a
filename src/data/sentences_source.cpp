// Short stories in a small language: each a document, ended by a newline and id 0.
#include "data/generated_source.h"
#include "data/sources.h"
#include "data/story.h"

namespace siamese {
namespace {

class SentencesSource final : public GeneratedSource {
 public:
  using GeneratedSource::GeneratedSource;

  std::string describe() const override {
    return "sentences: short stories from a grammar of about 200 words, made as needed";
  }

 protected:
  // Training and validation differ by their random site alone: a story of three sentences may turn up in both, a whole
  // window does not.
  void append(Draws& draws, Part, std::string& text) const override {
    text += tell_story(draws);
    text.push_back('\0');
  }
};

}  // namespace

std::unique_ptr<Source> make_sentences_source(int64_t sequence_length, uint64_t seed) {
  return std::make_unique<SentencesSource>(sequence_length, seed);
}

}  // namespace siamese
