// Recipes: what is read, what is refused and in which words.
#include <gtest/gtest.h>

#include "recipe/recipe.h"
#include "recipe_errors.h"

namespace siamese {
namespace {

using namespace recipe_test;

TEST(Recipe, NothingSetMeansDefaults) {
  EXPECT_EQ(parse(""), parse("# only a comment\n"));
  EXPECT_EQ(parse("").train.lr, 1e-3);
  EXPECT_EQ(parse("train:\n  # lr: 1\n").train.lr, 1e-3);
  EXPECT_EQ(parse("").name, "x");
}

TEST(Recipe, ReadsEveryType) {
  const Recipe r = parse(
      "name: run 1\n"
      "model: {d_model: 128, bias: true, scheme: pre, init: {kind: normal, std: 1e-2}}\n"
      "data:\n  tokens: [a.npy, 'b c.npy']\n  eos_id: +7\n"
      "train:\n  lr: .5\n  clip: 2\n");
  EXPECT_EQ(r.name, "run 1");
  EXPECT_EQ(r.model.d_model, 128);
  EXPECT_TRUE(r.model.bias);
  EXPECT_EQ(r.model.scheme, "pre");
  EXPECT_EQ(r.model.init.std, 0.01);
  EXPECT_EQ(r.data.tokens, (std::vector<std::string>{"a.npy", "b c.npy"}));
  EXPECT_EQ(r.data.eos_id, 7);
  EXPECT_EQ(r.train.lr, 0.5);
  EXPECT_EQ(r.train.clip, 2.0);
}

TEST(Recipe, KeysMayBeDotted) {
  EXPECT_EQ(parse("train.lr: 0.25\n").train.lr, 0.25);
  EXPECT_EQ(parse("model:\n  init.cutoff: 2\n").model.init.cutoff, 2.0);
  EXPECT_EQ(error_of("train:\n  lr: 1\ntrain.lr: 2\n"), "x.yaml:3: duplicate key 'train.lr', first on line 2");
}

TEST(Recipe, UnknownKeysAreRefusedWithTheNearest) {
  const std::pair<const char*, const char*> cases[] = {
      {"\n\ntrain:\n  learning_rate: 1\n", "x.yaml:4: unknown key 'train.learning_rate'; did you mean 'train.lr'?"},
      {"model:\n  lr: 1\n", "x.yaml:2: unknown key 'model.lr'; did you mean 'train.lr'?"},
      {"lr: 1\n", "x.yaml:1: unknown key 'lr'; did you mean 'train.lr'?"},
      {"train: {lrr: 1}\n", "x.yaml:1: unknown key 'train.lrr'; did you mean 'train.lr'?"},
      {"train_lr: 1\n", "x.yaml:1: unknown key 'train_lr'; did you mean 'train.lr'?"},
      {"model:\n  n_layer: 1\n", "x.yaml:2: unknown key 'model.n_layer'; did you mean 'model.n_layers'?"},
      {"trian:\n  lr: 1\n", "x.yaml:1: unknown key 'trian'; did you mean 'train'?"},
      {"model:\n  innit: {}\n", "x.yaml:2: unknown key 'model.innit'; did you mean 'model.init'?"},
      {"checkpoint:\n  evry: 1\n", "x.yaml:2: unknown key 'checkpoint.evry'; did you mean 'checkpoint.every'?"},
      {"eval:\n  evry: 1\n", "x.yaml:2: unknown key 'eval.evry'; did you mean 'eval.every'?"},
      {"train:\n  zzzzzz: 1\n", "x.yaml:2: unknown key 'train.zzzzzz'; `siamese recipe --keys` lists all"},
      {"\"a\\nb\": 1\n", "x.yaml:1: unknown key 'a\\x0ab'; `siamese recipe --keys` lists all"},
  };
  for (const auto& [yaml, message] : cases) EXPECT_EQ(error_of(yaml), message);
}

TEST(Recipe, DuplicateKeysAreRefused) {
  EXPECT_EQ(error_of("train:\n  lr: 1\n  lr: 2\n"), "x.yaml:3: duplicate key 'train.lr', first on line 2");
  EXPECT_EQ(error_of("train:\n  lr: 1\ntrain:\n  clip: 2\n"), "x.yaml:3: duplicate key 'train', first on line 1");
}

TEST(Recipe, WrongTypesAreRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {"train: {lr: fast}", "x.yaml:1: train.lr must be a number, not 'fast'"},
      {"train: {lr: \"1\"}", "x.yaml:1: train.lr must be a number, not the text \"1\""},
      {"train: {lr: .nan}", "x.yaml:1: train.lr must be a number, not '.nan'"},
      {"train: {lr: inf}", "x.yaml:1: train.lr must be a number, not 'inf'"},
      {"train: {lr: 1e999}", "x.yaml:1: train.lr must be a number, not '1e999'"},
      {"train: {lr: 1e-3x}", "x.yaml:1: train.lr must be a number, not '1e-3x'"},
      {"train: {lr: }", "x.yaml:1: train.lr must be a number, not empty"},
      {"train: {lr: [1]}", "x.yaml:1: train.lr must be a number, not a list"},
      {"train:\n  lr:\n    peak: 1\n", "x.yaml:2: train.lr must be a number, not a section"},
      {"train: {steps: 1.5}", "x.yaml:1: train.steps must be a whole number, not '1.5'"},
      {"train: {steps: 1e3}", "x.yaml:1: train.steps must be a whole number, not '1e3'"},
      {"train: {steps: 0x10}", "x.yaml:1: train.steps must be a whole number, not '0x10'"},
      {"train: {seed: 9223372036854775808}", "x.yaml:1: train.seed must be a whole number, not '9223372036854775808'"},
      {"model: {bias: yes}", "x.yaml:1: model.bias must be true or false, not 'yes'"},
      {"model: {bias: 'true'}", "x.yaml:1: model.bias must be true or false, not the text \"true\""},
      {"data: {text: [a]}", "x.yaml:1: data.text must be a text, not a list"},
      {"data: {text: \"a\\0b\"}", "x.yaml:1: data.text must be free of control characters, not the text \"a\\x00b\""},
      {"data: {tokens: {a: b}}", "x.yaml:1: data.tokens must be a text or a list of texts, not a section"},
      {"data: {tokens: [[a]]}", "x.yaml:1: data.tokens must be a list of texts, not a list"},
      {"data: {tokens: ['']}", "x.yaml:1: data.tokens must be a list of texts, not the text \"\""},
      {"train: 5", "x.yaml:1: 'train' is a section: its keys stand indented below it"},
      {"model:\n  init: [1]\n", "x.yaml:2: 'model.init' is a section: its keys stand indented below it"},
      {"- a\n- b\n", "x.yaml:1: a recipe holds `key: value` lines"},
      {"train", "x.yaml:1: a recipe holds `key: value` lines"},
  };
  for (const auto& [yaml, message] : cases) EXPECT_EQ(error_of(yaml), message);
}

TEST(Recipe, ValuesOutOfRangeAreRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {"train: {lr: -1}", "x.yaml:1: train.lr must be above 0, not '-1'"},
      {"train: {beta1: 1}", "x.yaml:1: train.beta1 must be at least 0 and below 1, not '1'"},
      {"model: {drop_path: 1.0}", "x.yaml:1: model.drop_path must be at least 0 and below 1, not '1.0'"},
      {"model: {n_layers: 0}", "x.yaml:1: model.n_layers must be between 1 and 1000, not '0'"},
      {"train: {steps: 100000001}", "x.yaml:1: train.steps must be between 1 and 100000000, not '100000001'"},
      {"data: {eos_id: -2}", "x.yaml:1: data.eos_id must be between -1 and 4294967295, not '-2'"},
      {"train: {schedule: cosin}",
       "x.yaml:1: train.schedule must be one of cosine, linear, constant, wsd, not 'cosin'; did you mean 'cosine'?"},
      {"model: {family: vit}", "x.yaml:1: model.family must be one of lm, deit, dit, not 'vit'; did you mean 'dit'?"},
  };
  for (const auto& [yaml, message] : cases) EXPECT_EQ(error_of(yaml), message);
  const std::string scheme = error_of("model:\n  scheme: siamese_hybird\n");
  EXPECT_TRUE(scheme.starts_with("x.yaml:2: model.scheme must be one of pre, post, deepnorm, keel, ")) << scheme;
  EXPECT_TRUE(scheme.ends_with("not 'siamese_hybird'; did you mean 'siamese_hybrid'?")) << scheme;
}

TEST(Recipe, BadYamlIsOneLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"train: {lr: 1\n", "x.yaml:2:1: end of map flow not found"},
      {"a: b: c\n", "x.yaml:1:5: illegal map value"},
      {"train:\n\tlr: 1\n", "x.yaml:2:"},
      {"name: \"\\q\"\n", "x.yaml:1:10: unknown escape character: q"},
      {"name: !!str x\n", "x.yaml:1: YAML tags are not used in recipes"},
      {"name: &a x\n", "x.yaml:1: YAML anchors and aliases are not used in recipes; share settings with extends:"},
      {"name: x\n---\nname: y\n", "x.yaml:2: a second YAML document; a recipe is one"},
      {"? [a]\n: 1\n", "x.yaml:1: a key must be a plain word"},
      {"name: a\x01\n", "x.yaml:1: a control character, or bytes that are not UTF-8"},
      {"\nname: \xff\n", "x.yaml:2: a control character, or bytes that are not UTF-8"},
  };
  for (const auto& [yaml, message] : cases) EXPECT_TRUE(error_of(yaml).starts_with(message)) << error_of(yaml);
}

TEST(Recipe, HostileSizesAreRefused) {
  const size_t many = 500000;
  EXPECT_EQ(error_of(std::string((1 << 20) + 1, '#')), "x.yaml: larger than the 1 MiB accepted here");
  for (const char* const piece : {"[", "{", "- ", "? ", "{a: ", "[a, ", "\"", "a: ", "!", "&a ", "\n- ", "|\n", "'"}) {
    std::string text;
    while (text.size() + 8 < many) text += piece;
    EXPECT_TRUE(error_of(text).starts_with("x.yaml:")) << piece << ": " << error_of(text);
  }
  std::string indented;
  for (size_t i = 0; indented.size() < many; ++i) indented += std::string(i, ' ') + "a:\n";
  EXPECT_TRUE(contains(error_of(indented), "nested too deeply"));
  EXPECT_TRUE(contains(error_of("train:\n  ? " + std::string(many, 'l') + "\n  : 1\n"), "unknown key 'train.lll"));
  EXPECT_LT(error_of("name: [" + std::string(many, 'l') + "\n").size(), 300u);
}

TEST(Recipe, OverridesComeLast) {
  const Recipe r = parse("train: {lr: 1}\n", {"train.lr=2", "train.lr=3e-4", "model.bias=true", "name= a b "});
  EXPECT_EQ(r.train.lr, 3e-4);
  EXPECT_TRUE(r.model.bias);
  EXPECT_EQ(r.name, "a b");
  EXPECT_EQ(parse("", {"data.tokens=[a.npy,b.npy]"}).data.tokens, (std::vector<std::string>{"a.npy", "b.npy"}));
  EXPECT_EQ(parse("", {"data.tokens=a.npy"}).data.tokens, std::vector<std::string>{"a.npy"});
  EXPECT_EQ(parse("", {"data.text='a b'"}).data.text, "a b");
  EXPECT_EQ(parse("", {"data.text=a: b #1=*.txt"}).data.text, "a: b #1=*.txt");
  EXPECT_EQ(parse("data: {text: a}\n", {"data.text="}).data.source, "sentences");
  EXPECT_TRUE(parse("data: {tokens: a}\n", {"data.tokens=", "data.text=b"}).data.tokens.empty());
}

TEST(Recipe, BadOverridesNameThemselves) {
  const std::pair<const char*, const char*> cases[] = {
      {"train.lrr=1", "--set train.lrr=1: unknown key 'train.lrr'; did you mean 'train.lr'?"},
      {"trian.lr=1", "--set trian.lr=1: unknown key 'trian.lr'; did you mean 'train.lr'?"},
      {"train.lr", "--set train.lr: expected key=value, as in --set train.lr=1e-3"},
      {"train.lr=x", "--set train.lr=x: train.lr must be a number, not 'x'"},
      {"train.lr=", "--set train.lr=: train.lr must be a number, not ''"},
      {"train={lr: 1}", "--set train={lr: 1}: 'train' is a section; set its keys one by one"},
      {"data.tokens=[a", "--set data.tokens=[a: a key must be a plain word; is a bracket left open?"},
      {"data.text=a\nb", "--set data.text=a\\x0ab: data.text must be free of control characters, not 'a\\x0ab'"},
      {"extends=a", "--set extends=a: extends stands in a file; name that recipe instead"},
      {"=1", "--set =1: unknown key ''; `siamese recipe --keys` lists all"},
  };
  for (const auto& [text, message] : cases) EXPECT_EQ(error_of("", {text}), message);
}

}  // namespace
}  // namespace siamese
