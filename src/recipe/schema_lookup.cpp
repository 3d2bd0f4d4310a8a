#include "recipe/schema.h"

#include <algorithm>
#include <sstream>
#include <type_traits>
#include <utility>

#include "util/text.h"

namespace siamese {
namespace {

constexpr size_t kLongestGuess = 64;  // nobody mistypes more; bounds the edit distances

std::string_view section_of(std::string_view path) {
  const size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
}

std::string last_word(std::string_view path) {
  const size_t dot = path.rfind('.');
  return std::string(dot == std::string_view::npos ? path : path.substr(dot + 1));
}

struct Guesses {
  std::vector<std::string> words;  // what could have been meant
  std::vector<std::string> paths;  // the key behind each

  void add(std::string word, std::string_view path) {
    words.push_back(std::move(word));
    paths.emplace_back(path);
  }
  std::string path_of(const std::string& word) const {
    const auto found = std::find(words.begin(), words.end(), word);
    return found == words.end() ? std::string() : paths[static_cast<size_t>(found - words.begin())];
  }
};

/// Every name a key, a section or another trainer's key goes by. Those of `section` come first and win a tie.
Guesses guesses_for(std::string_view section) {
  Guesses near, far;
  for (const Field& field : fields()) {
    const std::string_view home = section_of(field.path);
    Guesses& side = home == section ? near : far;
    side.add(last_word(field.path), field.path);
    std::istringstream also{std::string(field.also)};
    for (std::string word; also >> word;) side.add(word, field.path);
    if (!home.empty()) (section_of(home) == section ? near : far).add(last_word(home), home);
  }
  for (size_t i = 0; i < far.words.size(); ++i) near.add(far.words[i], far.paths[i]);
  return near;
}

}  // namespace

const Field* find_field(std::string_view path) {
  const auto found = std::find_if(fields().begin(), fields().end(), [&](const Field& f) { return f.path == path; });
  return found == fields().end() ? nullptr : &*found;
}

bool is_section(std::string_view path) {
  return std::any_of(fields().begin(), fields().end(), [&](const Field& f) {
    return f.path.size() > path.size() && f.path.starts_with(path) && f.path[path.size()] == '.';
  });
}

std::string suggest_key(std::string_view path) {
  if (path.size() > kLongestGuess) return {};
  const std::string_view section = section_of(path);
  const std::string word = last_word(path);
  Guesses guesses = guesses_for(section);
  if (!is_section(section)) {  // train_lr; inside a section every full path would be near for its section alone
    for (const Field& field : fields()) guesses.add(std::string(field.path), field.path);
  }
  if (const std::string exact = guesses.path_of(word); !exact.empty()) return exact;  // model.lr, learning_rate
  return guesses.path_of(nearest(word, guesses.words));
}

FieldValue get(const Field& field, const Recipe& recipe) {
  // The table holds one accessor a field, for writing; here its pointer is only read from.
  return std::visit([](auto* slot) -> FieldValue { return *slot; }, field.slot(const_cast<Recipe&>(recipe)));
}

void set(const Field& field, Recipe& recipe, FieldValue value) {
  std::visit([&](auto* slot) { *slot = std::get<std::remove_pointer_t<decltype(slot)>>(std::move(value)); },
             field.slot(recipe));
}

FieldValue default_of(const Field& field) { return get(field, Recipe{}); }

}  // namespace siamese
