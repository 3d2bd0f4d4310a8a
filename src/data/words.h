// The words of the bundled sentence language. A change to any table changes every story and every loss measured on
// them.
#pragma once

#include <string_view>

namespace siamese::words {

struct Verb {
  std::string_view plain, third, past;  // they walk, she walks, she walked
};

struct Noun {
  std::string_view one, many;
};

inline constexpr std::string_view kGirls[] = {"Mira", "Anna", "Lena", "Nora", "Ida", "Rosa", "Emma", "Clara"};
inline constexpr std::string_view kBoys[] = {"Tom", "Ben", "Max", "Leo", "Paul", "Finn", "Otto", "Hugo"};
inline constexpr std::string_view kPets[] = {"Rex", "Momo", "Tiger", "Bobo", "Pepper", "Luna", "Coco", "Biscuit"};

inline constexpr std::string_view kPlaces[] = {
    "in the garden",  "in the forest",  "in the kitchen",   "in the barn",   "in the park",   "at the market",
    "at the harbour", "at the station", "at school",        "on the beach",  "on the bridge", "on the hill",
    "near the river", "near the tower", "behind the house", "under the tree"};

inline constexpr std::string_view kColours[] = {"red",   "blue",  "green", "yellow", "white",
                                                "black", "brown", "grey",  "orange"};
inline constexpr std::string_view kFurs[] = {"white", "black", "brown", "grey"};
inline constexpr std::string_view kNumbers[] = {"no",   "one", "two",   "three", "four",
                                                "five", "six", "seven", "eight", "nine"};
inline constexpr std::string_view kMoods[] = {"happy", "sad", "tired", "proud", "hungry", "calm", "cheerful", "angry"};
inline constexpr std::string_view kTimes[] = {"in the morning", "at noon", "in the evening", "at night"};

inline constexpr std::string_view kThings[] = {"kite", "ball", "boat", "box",    "cup",  "hat",      "lamp",
                                               "book", "coat", "drum", "basket", "bell", "umbrella", "bag"};
inline constexpr Noun kGoods[] = {{"apple", "apples"}, {"pear", "pears"}, {"plum", "plums"},   {"egg", "eggs"},
                                  {"nut", "nuts"},     {"coin", "coins"}, {"shell", "shells"}, {"cherry", "cherries"}};
inline constexpr Noun kAnimals[] = {{"cat", "cats"},   {"dog", "dogs"},    {"goat", "goats"},     {"horse", "horses"},
                                    {"duck", "ducks"}, {"fox", "foxes"},   {"goose", "geese"},    {"mouse", "mice"},
                                    {"hen", "hens"},   {"pony", "ponies"}, {"rabbit", "rabbits"}, {"sheep", "sheep"}};

inline constexpr Verb kActs[] = {{"walk", "walks", "walked"},    {"run", "runs", "ran"},
                                 {"sit", "sits", "sat"},         {"sing", "sings", "sang"},
                                 {"wait", "waits", "waited"},    {"play", "plays", "played"},
                                 {"work", "works", "worked"},    {"dance", "dances", "danced"},
                                 {"laugh", "laughs", "laughed"}, {"read", "reads", "read"}};
inline constexpr Verb kAnimalActs[] = {{"sleep", "sleeps", "slept"}, {"eat", "eats", "ate"},
                                       {"jump", "jumps", "jumped"},  {"drink", "drinks", "drank"},
                                       {"run", "runs", "ran"},       {"wait", "waits", "waited"}};
inline constexpr Verb kBe{"are", "is", "was"};  // "were" for past plural, see Story::form
inline constexpr Verb kHave{"have", "has", "had"}, kGive{"give", "gives", "gave"}, kLose{"lose", "loses", "lost"},
    kFind{"find", "finds", "found"}, kLook{"look", "looks", "looked"}, kMake{"make", "makes", "made"},
    kAsk{"ask", "asks", "asked"}, kSay{"say", "says", "said"}, kLike{"like", "likes", "liked"},
    kCount{"count", "counts", "counted"}, kBelong{"belong", "belongs", "belonged"};

struct Weather {
  std::string_view now, past;
};
inline constexpr Weather kWeather[] = {{"it rains", "it rained"},
                                       {"it snows", "it snowed"},
                                       {"the sun shines", "the sun shone"},
                                       {"the wind blows", "the wind blew"}};

}  // namespace siamese::words
