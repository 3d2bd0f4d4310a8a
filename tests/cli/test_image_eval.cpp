// Judging image models: which class a folder is, which class is taken for which, what could not be read, the report.
#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "image_runs.h"
#include "io/safetensors.h"
#include "util/files.h"

namespace siamese::test {
namespace {

using nlohmann::json;

/// A classifier of folders 1 … 12, k pictures in folder k, so that counts tell them apart. It could tell 24 apart.
class ImageEval : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TempFolder;
    for (int k = 1; k <= 12; ++k) paint(path("numbers/" + std::to_string(k)), k);
    const Outcome o = run_siamese(
        image_train("deit", path("run"),
                    {"data.source=folder", "data.images=" + path("numbers"), "data.corrupt=skip", "model.classes=24"}));
    ASSERT_EQ(o.status, 0) << o.err;
  }
  static void TearDownTestSuite() { delete folder_; }
  static TempFolder* folder_;

  static std::string path(const std::string& name) { return *folder_ / name; }

  /// Rows of a table of confusion: pictures of each true class, where there are some.
  static std::map<std::string, int> row_sums(const std::string& csv) {
    std::map<std::string, int> sums;
    for (const std::string& line : lines(csv)) {
      std::istringstream cells(line);
      std::string name, cell;
      std::getline(cells, name, ',');
      if (name == "true\\found") continue;
      int sum = 0;
      while (std::getline(cells, cell, ',')) sum += std::stoi(cell);
      if (sum > 0) sums[name] = sum;
    }
    return sums;
  }
};
TempFolder* ImageEval::folder_ = nullptr;

TEST_F(ImageEval, FoldersAreClassesByName) {
  const std::string table = path("table.csv");
  const Outcome all = run_siamese({"eval", path("run"), "--data", path("numbers"), "--confusion", table});
  ASSERT_EQ(all.status, 0) << all.err;
  EXPECT_TRUE(contains(all.out, "classes by name")) << all.out;
  EXPECT_TRUE(contains(all.out, "most frequent mistakes:")) << all.out;
  EXPECT_LE(lines(all.out).size(), 1U + 3 + 2 + 12 + 1) << all.out;  // ten mistakes and a header
  const std::string csv = read(table);
  EXPECT_EQ(lines(csv).front(), "true\\found,1,10,11,12,2,3,4,5,6,7,8,9,class 12,13,14,15,16,17,18,19,20,21,22,23");
  EXPECT_EQ(lines(csv).size(), 25U);
  const std::map<std::string, int> sums = row_sums(csv);
  EXPECT_EQ(sums.size(), 12U);
  for (const auto& [name, sum] : sums) EXPECT_EQ(std::to_string(sum), name);
}

TEST_F(ImageEval, SomeFoldersAreEnough) {
  fs::create_directory(path("part"));
  for (const char* k : {"2", "10"}) fs::copy(path("numbers/") + k, path("part/") + k, fs::copy_options::recursive);
  const Outcome o = run_siamese({"eval", path("run"), "--data", path("part"), "--confusion", path("part.csv")});
  ASSERT_EQ(o.status, 0) << o.err;
  EXPECT_EQ(row_sums(read(path("part.csv"))), (std::map<std::string, int>{{"2", 2}, {"10", 10}}));
  const Outcome untold = run_siamese({"eval", path("run"), "--data", path("part")});
  EXPECT_TRUE(contains(untold.out, "--confusion FILE writes the whole table")) << untold.out;
}

TEST_F(ImageEval, UnknownFoldersAreRefused) {
  paint(path("renamed/1"), 1);
  paint(path("renamed/two"), 2);
  const Outcome o = run_siamese({"eval", path("run"), "--data", path("renamed")});
  EXPECT_EQ(o.status, 1);
  EXPECT_TRUE(contains(o.err, "'two' is none of the model's classes: 1, 10, 11, 12, 2, … (24)")) << o.err;
  EXPECT_EQ(lines(o.err).size(), 1U) << o.err;
}

/// As checkpoints were written before they held the names.
TEST_F(ImageEval, CheckpointsWithoutNamesStillWork) {
  fs::copy(path("run"), path("old"), fs::copy_options::recursive);
  const std::string file = path("old/checkpoints/step-00000004/manifest.json");
  json manifest = json::parse(read(file));
  EXPECT_EQ(manifest.at("classes").size(), 12U);
  manifest.erase("classes");
  manifest.erase("xxh64");
  const std::string body = manifest.dump(1);
  manifest["xxh64"] = hash_bytes(std::as_bytes(std::span(body)));
  write(file, manifest.dump(1));
  const Outcome own = run_siamese({"eval", path("old")});
  EXPECT_EQ(own.status, 0) << own.err;
  const Outcome o = run_siamese({"eval", path("old"), "--data", path("numbers"), "--confusion", path("old.csv")});
  ASSERT_EQ(o.status, 0) << o.err;
  EXPECT_TRUE(contains(o.out, "taken for class numbers, since the checkpoint holds no class names")) << o.out;
  EXPECT_EQ(row_sums(read(path("old.csv"))).at("12"), 12);
}

TEST_F(ImageEval, WhatCannotBeReadIsNamed) {
  fs::copy(path("numbers"), path("torn"), fs::copy_options::recursive);
  write(path("torn/3/torn.png"), "no picture");
  write(path("torn/4/torn.png"), "no picture");
  const std::string left_out = "2 images could not be read and were left out: ";
  const Outcome judged = run_siamese({"eval", path("run"), "--data", path("torn")});
  ASSERT_EQ(judged.status, 0) << judged.err;
  EXPECT_TRUE(contains(judged.out, left_out + path("torn/3/torn.png") + ", " + path("torn/4/torn.png"))) << judged.out;
  const Args compare = {"compare-images", path("numbers"), path("torn"), "--features", path("run"), "--json"};
  const Outcome compared = run_siamese(compare);
  ASSERT_EQ(compared.status, 0) << compared.err;
  EXPECT_TRUE(contains(compared.err, path("torn") + ": " + left_out)) << compared.err;
  const json line = json::parse(compared.out);
  EXPECT_EQ(line.at("unreadable_b"), 2);
  EXPECT_EQ(line.at("b"), 78);
}

TEST_F(ImageEval, StoppedTrainingNamesThemToo) {
  for (const char* part : {"train", "val"}) {
    paint(path("sets/") + part + "/a", 5);
    paint(path("sets/") + part + "/b", 5);
    write(path("sets/") + part + "/b/torn.png", "no picture");
  }
  Process process(siamese_command(image_train("deit", path("stopped"),
                                              {"data.source=folder", "data.images=" + path("sets"), "data.corrupt=skip",
                                               "train.steps=1000000", "eval.every=2"})));
  ASSERT_TRUE(process.wait_until([&] { return lines(read(path("stopped/metrics.jsonl"))).size() >= 12; }))
      << process.err();
  process.send(SIGINT);
  const Outcome o = process.wait();
  EXPECT_EQ(o.status, 128 + SIGINT);
  EXPECT_TRUE(contains(o.out, "1 images could not be read and were left out: " + path("sets/train/b/torn.png")))
      << o.out;
  EXPECT_TRUE(contains(o.out, "1 validation image could not be read and was left out: " + path("sets/val/b/torn.png")))
      << o.out;
}

TEST_F(ImageEval, DiffusionIsJudgedAsInTraining) {
  ASSERT_EQ(run_siamese(image_train("dit", path("dit"), {"data.shapes=40", "diffusion.sample_every=1"})).status, 0);
  const json trained = json::parse(lines(read(path("dit/metrics.jsonl"))).back());
  for (const bool raw : {false, true}) {
    const Outcome o =
        run_siamese(Args{"eval", path("dit"), "--batches", "1", "--threads", "1"} + (raw ? Args{"--raw"} : Args{}));
    ASSERT_EQ(o.status, 0) << o.err;
    EXPECT_EQ(contains(o.out, "averaged weights"), !raw) << o.out;
    const size_t at = o.out.find("validation_loss");
    ASSERT_NE(at, std::string::npos) << o.out;
    EXPECT_NEAR(std::stod(o.out.substr(at + 16)), trained.at(raw ? "validation_loss" : "ema_validation_loss"), 2e-6);
  }
}

TEST_F(ImageEval, ReportShowsTheWayOfSamples) {
  ASSERT_EQ(
      run_siamese(image_train("dit", path("way"), {"data.shapes=40", "train.steps=10", "diffusion.sample_every=1"}))
          .status,
      0);
  const Outcome o = run_siamese({"report", path("way"), path("run"), "-o", path("report.html")});
  ASSERT_EQ(o.status, 0) << o.err;
  const std::string page = read(path("report.html"));
  std::string steps;
  const std::string mark = "<figcaption>way, step ";
  for (size_t at = page.find(mark); at != std::string::npos; at = page.find(mark, at + 1))
    steps += page.substr(at + mark.size(), page.find('<', at + mark.size()) - at - mark.size()) + " ";
  EXPECT_EQ(steps, "1 2 4 5 6 7 9 10 ");
  for (const char* column : {"accuracy", "top5", "ema_accuracy"}) {
    EXPECT_TRUE(contains(o.out, column)) << o.out;
    EXPECT_TRUE(contains(page, std::string(column) + "</th>"));
  }
}

TEST_F(ImageEval, ComparingSmallOrDifferentSets) {
  paint(path("large/1"), 4, 16);
  const Args compare = {"compare-images", path("numbers"), path("large"), "--features", path("run")};
  const Outcome small = run_siamese(compare);
  ASSERT_EQ(small.status, 0) << small.err;
  EXPECT_TRUE(contains(small.out, "(no deviation: the sets are no larger than a subset, 1000)")) << small.out;
  EXPECT_TRUE(
      contains(small.err, "pictures of " + path("numbers") + " are 8 × 8, those of " + path("large") + " 16 × 16"))
      << small.err;
  EXPECT_TRUE(json::parse(run_siamese(compare + Args{"--json"}).out).at("kid_deviation").is_null());
  EXPECT_TRUE(
      json::parse(run_siamese(compare + Args{"--json", "--subset-size", "3"}).out).at("kid_deviation").is_number());
  const Outcome same = run_siamese({"compare-images", path("numbers"), path("numbers"), "--features", path("run")});
  EXPECT_TRUE(contains(same.out, "frechet    0.0000")) << same.out;
  EXPECT_EQ(same.err, "");
}

TEST_F(ImageEval, ComparingFeatures) {
  std::vector<TensorToWrite> tensors;
  std::vector<std::vector<float>> values(5);
  for (size_t t = 0; t < values.size(); ++t) {
    const int64_t width = t == 4 ? 3 : 6;
    for (int64_t i = 0; i < 20 * width; ++i)
      values[t].push_back(static_cast<float>((i * i * 31 + 7 * i * static_cast<int64_t>(t)) % 101) / 10);
    tensors.push_back(
        {std::string(1, static_cast<char>('a' + t)), DType::F32, {20, width}, std::as_bytes(std::span(values[t]))});
  }
  write_safetensors(path("features.safetensors"), tensors, {});
  const Args by = {"--features", path("features.safetensors"), "--json"};
  for (const char* same : {"a", "b", "c", "d"}) {  // of the same sets rounding makes zeros of either sign
    const Outcome o = run_siamese(Args{"compare-images", same, same} + by);
    ASSERT_EQ(o.status, 0) << o.err;
    EXPECT_GE(json::parse(o.out).at("frechet").get<double>(), 0) << o.out;
    EXPECT_FALSE(contains(o.out, "-0")) << o.out;
  }
  const Outcome o = run_siamese(Args{"compare-images", "a", "e"} + by);
  EXPECT_EQ(o.status, 1);
  EXPECT_TRUE(contains(o.err, "'a' is [20, 6], 'e' [20, 3]")) << o.err;
}

}  // namespace
}  // namespace siamese::test
