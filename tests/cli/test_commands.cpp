// Every subcommand does what its help says.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <regex>

#include <nlohmann/json.hpp>

#include "process.h"

namespace siamese::test {
namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// The names in the program's own list of subcommands.
Args subcommands() {
  const std::string help = run_siamese({"--help"}).out;
  Args names;
  for (const std::string& line : lines(help.substr(std::min(help.size(), help.find("Subcommands:")))))
    if (std::smatch found; std::regex_search(line, found, std::regex("^  ([a-z]+)  "))) names.push_back(found[1]);
  return names;
}

TEST(Commands, HelpHasAnExample) {
  const Args names = subcommands();
  ASSERT_GE(names.size(), 10U);
  for (const std::string& name : names) {
    const Outcome help = run_siamese({name, "--help"});
    EXPECT_EQ(help.status, 0) << name;
    EXPECT_TRUE(contains(help.out, "Example")) << name;
    EXPECT_TRUE(contains(help.out, "siamese " + name)) << name;
    EXPECT_EQ(help.err, "") << name;
  }
}

TEST(Commands, VersionNamesWhatItIsMadeOf) {
  const Outcome version = run_siamese({"--version"});
  EXPECT_EQ(version.status, 0);
  EXPECT_TRUE(std::regex_search(version.out, std::regex("siamese [0-9a-f]{7,}|siamese unknown"))) << version.out;
  EXPECT_TRUE(std::regex_search(version.out, std::regex("LibTorch [0-9]+\\.[0-9]+"))) << version.out;
}

TEST(Commands, ARecipePrintsAndReadsBack) {
  const TempFolder folder;
  for (const char* name : {"lm-tiny", "lm-pico", "lm-1.3b"}) {
    const Outcome first = run_siamese({"recipe", name});
    ASSERT_EQ(first.status, 0) << first.err;
    write(folder / "printed.yaml", first.out);
    const Outcome second = run_siamese({"recipe", folder / "printed.yaml"});
    EXPECT_EQ(second.status, 0) << second.err;
    EXPECT_EQ(second.out, first.out);
  }
}

TEST(Commands, RecipeTakesOverridesAndListsKeys) {
  const Outcome set = run_siamese({"recipe", "lm-tiny", "--set", "train.lr=3e-3", "--set", "model.scheme=mhc"});
  EXPECT_TRUE(contains(set.out, "lr: 0.003")) << set.out;
  EXPECT_TRUE(contains(set.out, "scheme: mhc")) << set.out;
  const Outcome keys = run_siamese({"recipe", "--keys"});
  EXPECT_EQ(keys.status, 0);
  for (const char* key : {"model.scheme", "data.text", "train.lr", "eval.every", "checkpoint.keep"})
    EXPECT_TRUE(contains(keys.out, key)) << key;
}

/// Nothing but comments is a recipe: every default.
TEST(Commands, EmptyRecipeIsEveryDefault) {
  const TempFolder folder;
  write(folder / "empty.yaml", "");
  const Outcome empty = run_siamese({"recipe", folder / "empty.yaml"});
  EXPECT_EQ(empty.status, 0) << empty.err;
  EXPECT_TRUE(contains(empty.out, "scheme: siamese_hybrid")) << empty.out;
}

TEST(Commands, SchemesListsAll) {
  const Outcome schemes = run_siamese({"schemes"});
  EXPECT_EQ(schemes.status, 0);
  const Args all = {"pre",       "post",      "deepnorm",  "keel",       "mix_ln",  "ln_scaling",
                    "reordered", "sandwich",  "peri",      "hybrid",     "span",    "hybrid_star",
                    "mhc",       "resi_dual", "hc_static", "hc_dynamic", "siamese", "siamese_hybrid"};
  ASSERT_EQ(all.size(), 18U);
  for (const std::string& name : all) {
    const auto rows = lines(schemes.out);
    const auto named = [&](const std::string& row) { return row.starts_with(name + " "); };
    EXPECT_EQ(std::count_if(rows.begin(), rows.end(), named), 1) << name;
  }
}

TEST(Commands, InfoOfARecipeAndOfARun) {
  const TempFolder folder;
  const Outcome recipe = run_siamese({"info", SIAMESE_SOURCE_DIR "/recipes/lm-1.3b.yaml"});
  EXPECT_EQ(recipe.status, 0) << recipe.err;
  EXPECT_TRUE(contains(recipe.out, "parameters")) << recipe.out;
  EXPECT_TRUE(contains(recipe.out, "GiB")) << recipe.out;
  for (const char* part : {"on a GPU, training\n", "on a CPU, training\n", "  residual streams ", "  together about "})
    EXPECT_TRUE(contains(recipe.out, part)) << part << "\n" << recipe.out;
  // What `train` refuses there is not planned for.
  const Outcome on_gpu = run_siamese({"info", "lm-400m", "--set", "train.recompute=norms"});
  EXPECT_FALSE(contains(on_gpu.out, "on a CPU")) << on_gpu.out;
  // A driver, but no GPU that this process may use.
  const Outcome hidden = run_siamese({"info", "lm-400m", "--set", "model.scheme=siamese_hybrid"},
                                     {.environment = {{"CUDA_VISIBLE_DEVICES", ""}}});
  EXPECT_EQ(hidden.status, 0) << hidden.err;
  EXPECT_TRUE(contains(hidden.out, "on a GPU, training\n")) << hidden.out;
  ASSERT_EQ(run_siamese(tiny_train(folder / "run", 4, 2)).status, 0);
  for (const std::string& path : {folder / "run", folder / "run/checkpoints/step-00000004"}) {
    const Outcome run = run_siamese({"info", path});
    EXPECT_EQ(run.status, 0) << run.err;
    for (const char* part : {"step    4", "tokens", "validation loss", "model.safetensors", "xxh64", "libtorch"})
      EXPECT_TRUE(contains(run.out, part)) << part << "\n" << run.out;
  }
}

/// A page that can be mailed: it fetches nothing.
void expect_self_contained(const std::string& html) {
  EXPECT_TRUE(contains(html, "<svg"));
  EXPECT_TRUE(contains(html, "</html>"));
  for (const char* pattern :
       {"(src|href)\\s*=\\s*[\"']?(https?:)?//", "<link", "<iframe", "@import", "url\\(\\s*[\"']?http"})
    EXPECT_FALSE(std::regex_search(html, std::regex(pattern))) << pattern;
}

TEST(Commands, CompareWritesAReportOnceAndReportAnother) {
  const TempFolder folder;
  Args args = tiny_train(folder / "compare", 4, 2) + Args{"--schemes", "pre,siamese"};
  args[0] = "compare";
  const Outcome first = run_siamese(args);
  ASSERT_EQ(first.status, 0) << first.err;
  const std::string html = read(folder / "compare/report.html");
  expect_self_contained(html);
  for (const char* part : {"pre", "siamese", "validation loss"}) EXPECT_TRUE(contains(html, part)) << part;
  EXPECT_TRUE(contains(first.out, "written by")) << first.out;

  const auto before = fingerprint(folder / "compare");
  const Outcome second = run_siamese(args);
  EXPECT_EQ(second.status, 1);
  EXPECT_TRUE(contains(second.err, "compare/pre") && contains(second.err, "--overwrite")) << second.err;
  EXPECT_EQ(lines(second.err).size(), 1U);
  EXPECT_EQ(fingerprint(folder / "compare"), before);
  EXPECT_EQ(run_siamese(args + Args{"--overwrite"}).status, 0);

  const Outcome report =
      run_siamese({"report", folder / "compare/pre", folder / "compare/siamese", "-o", folder / "r.html"});
  EXPECT_EQ(report.status, 0) << report.err;
  expect_self_contained(read(folder / "r.html"));
}

TEST(Commands, CompareGoesOnWhenASchemeDiverges) {
  const TempFolder folder;
  Args args = tiny_train(folder / "compare", 4, 0) + Args{"--schemes", "pre,post", "--set", "train.lr=1e30"};
  args[0] = "compare";
  const Outcome outcome = run_siamese(args);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(contains(outcome.err, "pre: step")) << outcome.err;
  EXPECT_TRUE(contains(outcome.err, "post: step")) << outcome.err;
  EXPECT_TRUE(contains(read(folder / "compare/report.html"), "not finite"));
}

TEST(Commands, BenchTimesSchemes) {
  const Outcome bench = run_siamese({"bench", "lm-pico", "--schemes", "siamese,pre", "--steps", "1", "--rounds", "1",
                                     "--threads", "1", "--json", "--device", "cpu"});
  ASSERT_EQ(bench.status, 0) << bench.err;
  ASSERT_EQ(lines(bench.out).size(), 2U);
  const auto first = nlohmann::json::parse(lines(bench.out)[0]), second = nlohmann::json::parse(lines(bench.out)[1]);
  EXPECT_EQ(first.at("scheme"), "siamese");
  EXPECT_EQ(second.at("scheme"), "pre");
  EXPECT_EQ(second.at("over_pre"), 0);
  const double ratio = first.at("ms").get<double>() / second.at("ms").get<double>();
  EXPECT_NEAR(first.at("over_pre").get<double>(), 100 * (ratio - 1), 1) << bench.out;
  EXPECT_TRUE(first.at("mfu").is_null() && first.at("peak_gb").is_null()) << bench.out;  // a CPU's are not known
  EXPECT_EQ(first.at("deterministic"), true);
}

// Before anything is timed.
TEST(Commands, BenchFindsMistakesFirst) {
  const TempFolder folder;
  const std::string wrong = folder / "wrong.yaml";  // no mistake on a GPU
  std::ofstream(wrong) << run_siamese({"recipe", "lm-pico", "--set", "train.graph=on"}).out;
  for (const std::string& mistake : {std::string("no-such-recipe"), wrong}) {
    const Outcome bench = run_siamese({"bench", "lm-pico", mistake, "--steps", "1", "--json", "--device", "cpu"});
    EXPECT_EQ(bench.status, 1);
    EXPECT_EQ(bench.out, "") << mistake;
    EXPECT_TRUE(contains(bench.err, mistake == wrong ? "train.graph" : mistake)) << bench.err;
  }
}

// A step of three micro-batches has three times the tokens; how long it takes is the machine's.
TEST(Commands, BenchOfSeveralMicroBatches) {
  const Outcome bench =
      run_siamese({"bench", "lm-pico", "--schemes", "pre", "--steps", "1", "--rounds", "1", "--parts", "3", "--set",
                   "train.sequence_length=32", "--set", "train.batch_size=2", "--json"});
  ASSERT_EQ(bench.status, 0) << bench.err;
  const nlohmann::json row = nlohmann::json::parse(bench.out);
  EXPECT_EQ(row.at("parts"), 3);
  EXPECT_NEAR(row.at("items_per_s").get<double>() * row.at("ms").get<double>() / 1e3, 3 * 2 * 32, 2);
}

/// Lost output is a failure, not a success with nothing to show.
TEST(Commands, FullStandardOutputIsAnError) {
  for (const Args& args : {Args{"recipe", "lm-tiny"}, Args{"schemes"}}) {
    const Outcome outcome = run_siamese(args, {.out = "/dev/full"});
    EXPECT_EQ(outcome.status, 1) << shown(args);
    EXPECT_EQ(lines(outcome.err).size(), 1U) << outcome.err;
  }
}

}  // namespace
}  // namespace siamese::test
