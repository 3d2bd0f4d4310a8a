// Recipes in files: extends, the bundled ones.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "recipe/recipe.h"
#include "recipe_errors.h"

namespace siamese {
namespace {

using namespace recipe_test;

namespace fs = std::filesystem;

std::string load_error(const std::string& file, const Overrides& overrides = {}) {
  return message_of([&] { load_recipe(file, overrides); });
}

/// A folder of its own for each test, and the bundled recipes.
class RecipeFiles : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("siamese_recipe_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
    const char* const given = std::getenv("SIAMESE_RECIPES");
    bundled_ = given ? given : SIAMESE_SOURCE_DIR "/recipes";
    set_recipe_folder(bundled_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream(folder_ / name) << content;
    return (folder_ / name).string();
  }
  std::string at(const std::string& name) const { return (folder_ / name).string(); }

  fs::path folder_;
  std::string bundled_;
};

TEST_F(RecipeFiles, ExtendsLaysTheFileOverItsBase) {
  write("base.yaml", "train: {lr: 1, clip: 2}\nmodel: {d_model: 128}\n");
  write("middle.yaml", "extends: base\ntrain: {lr: 2}\n");
  const Recipe r = load_recipe(write("top.yaml", "train: {beta1: 0.5}\nextends: middle.yaml\n"), {"train.clip=3"});
  EXPECT_EQ(r.train.lr, 2.0);
  EXPECT_EQ(r.train.clip, 3.0);
  EXPECT_EQ(r.train.beta1, 0.5);
  EXPECT_EQ(r.model.d_model, 128);
  EXPECT_EQ(r.name, "top");
  EXPECT_EQ(load_recipe(write("own.yaml", "extends: lm-pico\n")).model.d_model, 64);  // bundled
}

TEST_F(RecipeFiles, ErrorsNameTheFileTheKeyStandsIn) {
  write("base.yaml", "train:\n  lr: 1\n  stepz: 2\n");
  const std::string top = write("top.yaml", "\nextends: base\nmodel: {}\n");
  EXPECT_EQ(load_error(top), at("base.yaml") + ":3: unknown key 'train.stepz'; did you mean 'train.steps'?");
  write("base.yaml", "model: {scheme: pre}\n");
  write("top.yaml", "extends: base\nmodel:\n  streams: 2\n");
  EXPECT_TRUE(load_error(top).starts_with(at("top.yaml") + ":3: model.streams is an option of hc_static"));
  write("base.yaml", "model: {scheme: mhc, streams: 2}\n");
  write("top.yaml", "extends: base\nmodel:\n  scheme: pre\n");
  EXPECT_EQ(load_recipe(top).model.streams, 0);
}

TEST_F(RecipeFiles, BadExtendsIsRefused) {
  const std::string a = write("a.yaml", "extends: b\n"), b = write("b.yaml", "\nextends: a\n");
  EXPECT_EQ(load_error(a), b + ":2: extends goes in a circle: " + a + " -> " + b + " -> " + a);
  const std::string self = write("self.yaml", "extends: ../" + folder_.filename().string() + "/self\n");
  EXPECT_TRUE(load_error(self).starts_with(self + ":1: extends goes in a circle: "));
  for (int i = 0; i < 16; ++i) write(std::to_string(i) + ".yaml", "extends: " + std::to_string(i + 1) + "\n");
  write("16.yaml", "");
  EXPECT_TRUE(contains(load_error(at("0.yaml")), "extends more than 16 recipes: " + at("0.yaml") + " -> "));
  EXPECT_NO_THROW(load_recipe(at("1.yaml")));
  EXPECT_TRUE(
      load_error(write("c.yaml", "extends: lm-tinny\n"))
          .starts_with(at("c.yaml") + ":1: extends 'lm-tinny': no such recipe; did you mean 'lm-tiny'? bundled"));
  EXPECT_EQ(load_error(write("d.yaml", "extends: [a]\n")), at("d.yaml") + ":1: extends must be the name of a recipe");
  EXPECT_EQ(load_error(write("e.yaml", "extends:\n")), at("e.yaml") + ":1: extends must be the name of a recipe");
  EXPECT_EQ(load_error(write("f.yaml", "extends: 16\nextends: 15\n")),
            at("f.yaml") + ":2: duplicate key 'extends', first on line 1");
}

TEST_F(RecipeFiles, FilesAreFoundOrBundled) {
  EXPECT_EQ(load_recipe("lm-tiny"), load_recipe(bundled_ + "/lm-tiny.yaml"));
  EXPECT_EQ(load_recipe("lm-tiny.yaml"), load_recipe("lm-tiny"));
  const std::string missing = load_error("lm-tny");
  EXPECT_TRUE(missing.starts_with("recipe 'lm-tny': no such file and no bundled recipe; did you mean 'lm-tiny'?"));
  EXPECT_TRUE(contains(missing, "bundled recipes: deit-cifar10, deit-fashion, deit-s, deit-t, demo, dit-b2, "))
      << missing;
  EXPECT_TRUE(load_error("no/such.yaml").starts_with("no/such.yaml: ")) << load_error("no/such.yaml");
  EXPECT_TRUE(load_error(folder_.string()).starts_with(folder_.string())) << load_error(folder_.string());
  EXPECT_TRUE(load_error("").starts_with("recipe '': no such file"));
  const std::string large = write("large.yaml", std::string((1 << 20) + 1, '#'));
  EXPECT_EQ(load_error(large), large + ": larger than the 1.0 MiB accepted here");
}

TEST_F(RecipeFiles, EveryBundledRecipeReadsBack) {
  const std::vector<std::string> names = bundled_recipes();
  const std::set<std::string> norms_heads = {"hybrid", "hybrid_star", "siamese_hybrid"};
  EXPECT_GE(names.size(), 10u);
  for (const std::string& name : names) {
    const Recipe r = load_recipe(name);
    EXPECT_EQ(r.name, name);
    EXPECT_EQ(load_recipe(write("printed.yaml", to_yaml(r))), r) << name;
    if (r.model.family == "lm") {
      EXPECT_EQ(load_recipe(name, {"data.text=book.txt"}).data.source, "text");
    } else {
      EXPECT_THROW(load_recipe(name, {"data.text=book.txt"}), Error) << name;
    }
    for (const std::string& scheme : scheme_names()) {
      Overrides set = {"model.scheme=" + scheme};
      if (r.model.qk_norm == "projection" && norms_heads.contains(scheme)) {
        EXPECT_EQ(load_error(name, set),
                  fmt::format("--set model.scheme={0}: model.qk_norm projection does not go with "
                              "model.scheme {0}, which norms q, k and v per head",
                              scheme));
        set.push_back("model.qk_norm=head");
      }
      EXPECT_EQ(load_error(name, set), "no error") << name << " " << scheme;
    }
    std::ifstream file(bundled_ + "/" + name + ".yaml");
    EXPECT_EQ(file.get(), '#') << name << " does not say what it is";
  }
}

TEST_F(RecipeFiles, BundledRecipesHaveThePublishedSizes) {
  const auto tokens = [](const Recipe& r) {
    return static_cast<double>(r.train.steps * r.train.batch_size * r.train.sequence_length);
  };
  const Recipe large = load_recipe("lm-1.3b");
  EXPECT_NEAR(tokens(large), 100e9, 1e7);
  EXPECT_FALSE(large.model.weight_tying);
  const std::pair<int, int> sweep[] = {{10, 1280}, {17, 1024}, {33, 768}, {80, 512}};
  for (const auto& [blocks, width] : sweep) {
    const Recipe r = load_recipe("lm-390m-l" + std::to_string(blocks));
    EXPECT_EQ(r.model.n_layers, blocks);
    EXPECT_EQ(r.model.d_model, width);
    EXPECT_EQ(r.model.mlp_hidden_size, 8 * width);
    EXPECT_EQ(r.model.d_model / r.model.n_heads, 128);
    EXPECT_EQ(r.model.vocab_size, 50304);
    EXPECT_NEAR(tokens(r), 12e9, 1e7);
  }
}

}  // namespace
}  // namespace siamese
