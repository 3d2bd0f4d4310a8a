// The bundled stories: shape, grammar, and facts that stay true to the end.
#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <utility>

#include "data/sources.h"
#include "data/words.h"
#include "data_files.h"

namespace siamese {
namespace {

constexpr int64_t kLength = 256;

std::vector<std::string> stories(int64_t windows) {
  const auto source = make_sentences_source(2000, 1);
  std::vector<std::string> list;
  for (int64_t index = 0; index < windows; ++index) {
    const std::string text = decode_bytes(sample(*source, index, 2000));
    for (size_t at = 0, end = 0; (end = text.find('\0', at)) != std::string::npos; at = end + 1) {
      list.push_back(text.substr(at, end - at));
    }
  }
  return list;
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> list;
  std::string word;
  for (const char c : text + " ") {
    if (std::isalpha(static_cast<unsigned char>(c)) != 0) {
      word += c;
    } else if (!word.empty()) {
      list.push_back(std::exchange(word, ""));
    }
  }
  return list;
}

// Sentences outside quotations.
std::vector<std::string> sentences_of(const std::string& story) {
  std::vector<std::string> list;
  std::string sentence;
  bool quoted = false;
  for (const char c : story) {
    if (c == '"') quoted = !quoted;
    if (quoted || c == '"') continue;
    if (c == '.') {
      list.push_back(std::exchange(sentence, ""));
    } else {
      sentence += c;
    }
  }
  return list;
}

std::string lower(std::string word) {
  word[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(word[0])));
  return word;
}

template <class Table>
bool in(const Table& table, const std::string& word) {
  return std::find(std::begin(table), std::end(table), word) != std::end(table);
}

TEST(Sentences, HaveTheirShapeAndASmallVocabulary) {
  std::set<std::string> vocabulary;
  for (const std::string& story : stories(200)) {
    ASSERT_EQ(story.find('\n'), story.size() - 1) << story;
    ASSERT_EQ(story[story.size() - 2], '.') << story;
    ASSERT_EQ(story.find("  "), std::string::npos) << story;
    const size_t sentences = sentences_of(story).size() - (story.find('"') != std::string::npos ? 1 : 0);
    ASSERT_TRUE(sentences >= 3 && sentences <= 6) << story;
    for (const std::string& word : words_of(story)) vocabulary.insert(lower(word));
  }
  EXPECT_GE(vocabulary.size(), 150u);
  EXPECT_LE(vocabulary.size(), 250u);
}

TEST(Sentences, PronounsFitTheSubjectBefore) {
  int checked = 0;
  for (const std::string& story : stories(200)) {
    bool she = false, many = false;
    for (const std::string& sentence : sentences_of(story)) {
      const auto words = words_of(sentence);
      for (const std::string& word : words) {  // the first name or pronoun of a sentence is its subject
        if (word == "She" || word == "she" || word == "He" || word == "he") {
          ASSERT_EQ(word == "She" || word == "she", she) << story;
          ASSERT_FALSE(many) << story;
          ++checked;
          break;
        }
        if (in(words::kGirls, word) || in(words::kBoys, word)) {
          she = in(words::kGirls, word);
          many = words.size() > 1 && words[1] == "and";
          break;
        }
      }
    }
  }
  EXPECT_GT(checked, 1000);
}

TEST(Sentences, KeepOneTense) {
  std::map<std::string, int> tense;  // 1 present, 2 past, 3 both ("read")
  const auto note = [&](const words::Verb& verb) {
    tense[std::string(verb.plain)] |= 1;
    tense[std::string(verb.third)] |= 1;
    tense[std::string(verb.past)] |= 2;
  };
  for (const auto& verb : words::kActs) note(verb);
  for (const auto& verb : words::kAnimalActs) note(verb);
  using namespace words;
  for (const auto& verb : {kBe, kHave, kGive, kLose, kFind, kLook, kMake, kAsk, kSay, kLike, kCount, kBelong})
    note(verb);
  for (const auto& weather : kWeather) {
    tense[words_of(std::string(weather.now)).back()] |= 1;
    tense[words_of(std::string(weather.past)).back()] |= 2;
  }
  tense["are"] = 1;
  tense["were"] = 2;
  for (const std::string& story : stories(200)) {
    int seen = 0;
    for (const std::string& sentence : sentences_of(story)) {
      for (const std::string& word : words_of(sentence)) {
        if (tense.count(word) != 0 && tense[word] != 3) seen |= tense[word];
      }
    }
    ASSERT_TRUE(seen == 1 || seen == 2) << story;
  }
}

// "red kite" fixes the kite's colour for the story; "red kite", "The kite is red" and the answer must repeat it.
TEST(Sentences, KeepColours) {
  int checked = 0;
  for (const std::string& story : stories(200)) {
    std::map<std::string, std::string> colours;
    const auto expect = [&](const std::string& thing, const std::string& colour) {
      const auto [at, first] = colours.emplace(thing, colour);
      ASSERT_EQ(at->second, colour) << story;
      checked += first ? 0 : 1;
    };
    const auto words = words_of(story);
    for (size_t i = 0; i + 1 < words.size(); ++i) {
      if (in(words::kColours, words[i]) && words[i + 1] != "called") expect(words[i + 1], words[i]);
      if (i + 3 < words.size() && words[i] == "The" && in(words::kColours, words[i + 3]))
        expect(words[i + 1], words[i + 3]);
      if (words[i] == "colour") expect(words[i + 3], lower(words.at(i + 6)));  // colour is the kite asks Tom Red
    }
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(checked, 1000);
}

// Tom has seven apples … gives three apples to Anna Now he has four apples
TEST(Sentences, KeepCounts) {
  const auto number = [](const std::string& word) {
    return std::find(std::begin(words::kNumbers), std::end(words::kNumbers), lower(word)) - std::begin(words::kNumbers);
  };
  int shared = 0, counted = 0;
  for (const std::string& story : stories(200)) {
    const auto words = words_of(story);
    if (in(words::kNumbers, words[2])) {
      const auto give = static_cast<size_t>(
          std::find_if(words.begin(), words.end(), [](auto& w) { return w == "gives" || w == "gave"; }) -
          words.begin());
      const auto all = number(words[2]), given = number(words.at(give + 1)), then = number(words.at(give + 8));
      ASSERT_EQ(then, words[give + 6] == words[give + 4] ? given : all - given) << story;
      ++shared;
    } else if (in(words::kNumbers, lower(words[0]))) {
      for (size_t i = 1; i < words.size(); ++i) {
        if (number(words[i]) == std::ssize(words::kNumbers)) continue;
        ASSERT_EQ(number(words[i]), number(words[0])) << story;
        ++counted;
      }
    }
  }
  EXPECT_GT(shared, 300);
  EXPECT_GT(counted, 300);
}

TEST(Sentences, ValidationIsFixedAndNotInTraining) {
  const auto one = make_sentences_source(kLength, 1), two = make_sentences_source(kLength, 2);
  std::set<std::vector<int64_t>> held;
  for (int64_t index = 0; index < 256; ++index) {
    held.insert(validation(*one, index, kLength));
    EXPECT_EQ(validation(*one, index, kLength), validation(*two, index, kLength));
  }
  EXPECT_EQ(held.size(), 256u);
  for (int64_t index = 0; index < 2000; ++index) EXPECT_EQ(held.count(sample(*one, index, kLength)), 0u);
  EXPECT_NE(sample(*one, 0, kLength), sample(*two, 0, kLength));
  EXPECT_TRUE(one->problems(10).empty());
  EXPECT_EQ(one->eos(), 0);
}

}  // namespace
}  // namespace siamese
