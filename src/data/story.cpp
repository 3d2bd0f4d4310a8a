#include "data/story.h"

#include <fmt/format.h>

#include <cctype>

#include "data/words.h"

namespace siamese {
namespace {

using namespace words;

/// Who a sentence is about.
struct Subject {
  std::string name;
  std::string_view pronoun;
  bool many = false;
};

std::string a(std::string_view words) {
  const bool vowel = std::string_view("aeiou").find(words[0]) != std::string_view::npos;
  return fmt::format("{} {}", vowel ? "an" : "a", words);
}

std::string count_of(uint32_t count, const Noun& noun) {
  return fmt::format("{} {}", kNumbers[count], count == 1 ? noun.one : noun.many);
}

// A plot opens with facts, lets some sentences pass and closes with a sentence that only the facts can complete.
class Story {
 public:
  explicit Story(Draws& draws)
      : draws_(draws),
        past_(draws.below(2) == 0),
        hero_(person()),
        other_(person()),
        place_(draws.pick(kPlaces)),
        mood_(draws.pick(kMoods)) {
    while (other_.name == hero_.name) other_ = person();
    both_ = {hero_.name + " and " + other_.name, "they", true};
  }

  std::string tell() {
    const int sentences = 3 + static_cast<int>(draws_.below(4));
    using Plot = void (Story::*)(int);
    constexpr Plot kPlots[] = {&Story::owner, &Story::share, &Story::pet,  &Story::search,
                               &Story::herd,  &Story::make,  &Story::trade};
    (this->*draws_.pick(kPlots))(sentences);
    return text_ + "\n";
  }

 private:
  // ---- Plots. "Mira has a red kite. … The kite is red."
  void owner(int sentences) {
    const auto thing = draws_.pick(kThings), colour = draws_.pick(kColours);
    say(hero_, kHave, a(fmt::format("{} {}", colour, thing)));
    pass(sentences - 2);
    recall_colour(thing, colour);
  }

  // "Tom has seven apples. … He gives three apples to Anna. Now he has four apples."
  void share(int sentences) {
    const Noun& goods = draws_.pick(kGoods);
    const uint32_t all = 2 + draws_.below(8), given = 1 + draws_.below(all - 1);
    say(hero_, kHave, count_of(all, goods));
    pass(sentences - 3);
    say(hero_, kGive, fmt::format("{} to {}", count_of(given, goods), other_.name));
    const bool giver = draws_.below(2) == 0;
    say(giver ? hero_ : other_, kHave, count_of(giver ? all - given : given, goods), past_ ? "then" : "now");
  }

  // "Nora has a black dog called Rex. … The dog is called Rex."
  void pet(int sentences) {
    const auto animal = draws_.pick(kAnimals).one, colour = draws_.pick(kFurs), name = draws_.pick(kPets);
    const Subject pet{std::string(name), "it"};
    say(hero_, kHave, fmt::format("{} called {}", a(fmt::format("{} {}", colour, animal)), name));
    if (sentences > 3) say(pet, draws_.pick(kAnimalActs));
    pass(sentences > 3 ? sentences - 3 : 1);
    switch (draws_.below(3)) {
      case 0:
        return say({fmt::format("the {}", animal), "it"}, kBe, fmt::format("called {}", name));
      case 1:
        return say(pet, kBe, a(fmt::format("{} {}", colour, animal)));
      default:
        ask(fmt::format("What is the name of the {}?", animal), std::string(name));
    }
  }

  // "Paul loses a blue hat at the market. … Nora finds the blue hat at the market. She gives the hat to Paul."
  void search(int sentences) {
    const auto thing = draws_.pick(kThings), colour = draws_.pick(kColours);
    say(hero_, kLose, fmt::format("{} {}", a(fmt::format("{} {}", colour, thing)), place_));
    auto elsewhere = draws_.pick(kPlaces);
    while (elsewhere == place_) elsewhere = draws_.pick(kPlaces);
    if (sentences > 3) say(hero_, kLook, fmt::format("for the {} {}", thing, elsewhere));
    pass(sentences - 4);
    say(other_, kFind, fmt::format("the {} {} {}", colour, thing, place_));
    say(other_, kGive, fmt::format("the {} to {}", thing, hero_.name));
  }

  // "Five brown geese are on the hill. They sleep. … Mira counts five geese."
  void herd(int sentences) {
    const Noun& animal = draws_.pick(kAnimals);
    const uint32_t count = 3 + draws_.below(7);
    const auto colour = draws_.pick(kFurs);
    const Subject animals{fmt::format("the {}", animal.many), "they", true};
    say({fmt::format("{} {} {}", kNumbers[count], colour, animal.many), "they", true}, kBe, place_);
    last_ = animals.name;
    say(animals, draws_.pick(kAnimalActs));
    pass(sentences - 3);
    switch (draws_.below(3)) {
      case 0:
        return say(hero_, kCount, count_of(count, animal));
      case 1:
        return say({fmt::format("all {} {}", kNumbers[count], animal.many), "they", true}, kBe, colour);
      default:
        ask(fmt::format("How many {} are there?", animal.many), capital(kNumbers[count]));
    }
  }

  // "Ben and Lena make a green boat at the harbour. They … The green boat belongs to Ben and Lena."
  void make(int sentences) {
    const auto thing = draws_.pick(kThings), colour = draws_.pick(kColours);
    say(both_, kMake, fmt::format("{} {}", a(fmt::format("{} {}", colour, thing)), place_));
    pass(sentences - 2);
    say({fmt::format("the {} {}", colour, thing), "it"}, kBelong, fmt::format("to {}", both_.name));
  }

  // "Ida has a red cup. Max has a blue bag. … Ida gives the cup to Max. Max gives the bag to Ida. Now Ida has the blue
  // bag." Who has which colour must be bound, not only remembered.
  void trade(int sentences) {
    const auto mine = draws_.pick(kThings), mine_colour = draws_.pick(kColours);
    auto theirs = draws_.pick(kThings);
    while (theirs == mine) theirs = draws_.pick(kThings);
    const auto theirs_colour = draws_.pick(kColours);
    say(hero_, kHave, a(fmt::format("{} {}", mine_colour, mine)));
    say(other_, kHave, a(fmt::format("{} {}", theirs_colour, theirs)));
    if (sentences < 5) {  // too short for a trade
      pass(sentences - 3);
      return recall_colour(mine, mine_colour);
    }
    pass(sentences - 5);
    say(hero_, kGive, fmt::format("the {} to {}", mine, other_.name));
    say(other_, kGive, fmt::format("the {} to {}", theirs, hero_.name));
    const bool first = draws_.below(2) == 0;
    say(first ? hero_ : other_, kHave,
        fmt::format("the {} {}", first ? theirs_colour : mine_colour, first ? theirs : mine), past_ ? "then" : "now");
  }

  // ---- Closing sentences that several plots use.
  void recall_colour(std::string_view thing, std::string_view colour) {
    switch (draws_.below(3)) {
      case 0:
        return say({fmt::format("the {}", thing), "it"}, kBe, colour);
      case 1:
        return say({fmt::format("the {} {}", colour, thing), "it"}, kBelong, fmt::format("to {}", hero_.name));
      default:
        ask(fmt::format("What colour is the {}?", thing), capital(colour));
    }
  }

  // The question stays in the present whatever the tense of the story, as people speak.
  void ask(const std::string& question, const std::string& answer) {
    write(fmt::format("\"{}\" {} {}. \"{},\" {} {}.", question, form(kAsk, false), other_.name, answer,
                      form(kSay, false), hero_.name));
  }

  // ---- Sentences in between, none of a kind twice. Place and mood are the story's own: facts do not change.
  void pass(int count) {
    constexpr uint32_t kKinds = 7;
    uint32_t seen = 0;
    while (count > 0) {
      const uint32_t kind = draws_.below(kKinds);
      if ((seen >> kind & 1) != 0) continue;
      seen |= 1U << kind;
      --count;
      switch (kind) {
        case 0:
          say(hero_, draws_.pick(kActs), place_);
          break;
        case 1:
          say(hero_, kBe, mood_);
          break;
        case 2:
          say(other_, draws_.pick(kActs), "with " + hero_.name);
          break;
        case 3:
          say(both_, draws_.pick(kActs), place_);
          break;
        case 4:
          say(hero_, draws_.pick(kActs), "", draws_.pick(kTimes));
          break;
        case 5:
          say(other_, kLike, hero_.name);
          break;
        default:
          weather();
      }
    }
  }

  void weather() {
    const Weather& weather = draws_.pick(kWeather);
    write(capital(past_ ? weather.past : weather.now) + ".");
    last_.clear();
  }

  // ---- Grammar.
  Subject person() {
    const bool girl = draws_.below(2) == 0;
    return {std::string(girl ? draws_.pick(kGirls) : draws_.pick(kBoys)), girl ? "she" : "he"};
  }

  std::string_view form(const Verb& verb, bool many) const {
    if (past_) return many && verb.past == "was" ? "were" : verb.past;
    return many ? verb.plain : verb.third;
  }

  // [Lead] subject verb [rest]. The subject of the sentence before is taken up by its pronoun, always: a rule without
  // exception is one that a test can check and a small model can learn.
  void say(const Subject& subject, const Verb& verb, std::string_view rest = "", std::string_view lead = "") {
    const bool again = subject.name == last_;
    last_ = subject.name;
    write(capital(fmt::format("{}{}{} {}{}{}.", lead, lead.empty() ? "" : " ", again ? subject.pronoun : subject.name,
                              form(verb, subject.many), rest.empty() ? "" : " ", rest)));
  }

  void write(const std::string& sentence) { text_ += (text_.empty() ? "" : " ") + sentence; }

  static std::string capital(std::string_view words) {
    std::string copy(words);
    copy[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(copy[0])));
    return copy;
  }

  Draws& draws_;
  const bool past_;
  Subject hero_, other_, both_;
  const std::string_view place_, mood_;
  std::string last_;  // subject of the sentence before
  std::string text_;
};

}  // namespace

std::string tell_story(Draws& draws) { return Story(draws).tell(); }

}  // namespace siamese
