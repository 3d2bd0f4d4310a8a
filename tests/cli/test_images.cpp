// Image models as a user meets them: train, eval, sample, compare-images, report, and what they refuse.
#include <gtest/gtest.h>

#include "image_runs.h"

namespace siamese::test {
namespace {

class Images : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TempFolder;
    for (const char* family : {"deit", "dit"}) {
      const Outcome o = run_siamese(image_train(family, *folder_ / family, {"data.shapes=40"}));
      ASSERT_EQ(o.status, 0) << o.err;
      EXPECT_TRUE(contains(o.out, "images/s")) << o.out;
    }
  }
  static void TearDownTestSuite() { delete folder_; }
  static TempFolder* folder_;

  static std::string path(const std::string& name) { return *folder_ / name; }
};
TempFolder* Images::folder_ = nullptr;

TEST_F(Images, ClassifierIsJudged) {
  const Outcome o = run_siamese({"eval", path("deit")});
  ASSERT_EQ(o.status, 0) << o.err;
  for (const char* part : {"accuracy", "top5", "true \\ found", "circle"}) EXPECT_TRUE(contains(o.out, part)) << o.out;
}

TEST_F(Images, SamplesRepeat) {
  const Args args = {"sample", path("dit"), "--classes", "0-2,5", "--each", "2", "--steps", "3", "--cfg", "2", "-o"};
  ASSERT_EQ(run_siamese(args + Args{path("a.png"), "--singles", path("singles"), "--trajectory", "2"}).status, 0);
  ASSERT_EQ(run_siamese(args + Args{path("b.png")}).status, 0);
  EXPECT_EQ(read(path("a.png")), read(path("b.png")));
  ASSERT_EQ(run_siamese(args + Args{path("b.png"), "--batch", "3"}).status, 0);
  EXPECT_EQ(read(path("a.png")), read(path("b.png"))) << "whatever the batch";
  ASSERT_EQ(run_siamese(args + Args{path("c.png"), "--seed", "2"}).status, 0);
  EXPECT_NE(read(path("a.png")), read(path("c.png")));
  EXPECT_TRUE(read(path("a.png")).starts_with("\x89PNG"));
  EXPECT_TRUE(fs::exists(path("a-trajectory.png")));
  EXPECT_TRUE(fs::exists(path("singles/5/000007.png")));
  // Folders named by numbers are those classes of the model's.
  const Outcome judged = run_siamese({"eval", path("deit"), "--data", path("singles")});
  ASSERT_EQ(judged.status, 0) << judged.err;
  EXPECT_TRUE(contains(judged.out, "folders taken for class numbers")) << judged.out;
  EXPECT_TRUE(contains(judged.out, "true \\ found  circle")) << judged.out;
  const Outcome compared =
      run_siamese({"compare-images", path("singles"), path("singles"), "--features", path("deit")});
  ASSERT_EQ(compared.status, 0) << compared.err;
  EXPECT_TRUE(contains(compared.out, "precision  1.0000")) << compared.out;
  EXPECT_TRUE(contains(compared.out, "frechet    0.0000")) << compared.out;
  EXPECT_TRUE(contains(compared.out, "Only numbers from the same features")) << compared.out;
}

TEST_F(Images, ReportShowsPictures) {
  const Outcome o = run_siamese({"report", path("dit"), path("deit"), "-o", path("report.html")});
  ASSERT_EQ(o.status, 0) << o.err;
  const std::string page = read(path("report.html"));
  EXPECT_TRUE(contains(page, "data:image/png;base64,iVBORw0KGgo"));
  EXPECT_TRUE(contains(page, "images/s"));
}

TEST_F(Images, InfoCountsParameters) {
  const Outcome o = run_siamese({"info", "dit-b2"});
  ASSERT_EQ(o.status, 0) << o.err;
  EXPECT_TRUE(contains(o.out, "130M parameters")) << o.out;
  EXPECT_TRUE(contains(run_siamese({"info", "deit-s"}).out, "22.1M parameters"));
}

TEST_F(Images, WhatDoesNotFitIsRefused) {
  const std::pair<Args, std::string> cases[] = {
      {{"sample", path("deit")}, "is a model of family deit, not dit"},
      {{"generate", path("dit")}, "is a model of family dit, not lm"},
      {{"eval", path("dit"), "--data", path("dit")}, "siamese compare-images"},
      {{"eval", path("dit"), "--confusion", path("t.csv")}, "not a classifier"},
      {{"eval", path("deit"), "--confusion", path("no/such/t.csv")}, "is not a folder"},
      {{"sample", path("dit"), "--classes", "3-99"}, "the model has classes 0 … 9"},
      {{"sample", path("dit"), "--classes", "x"}, "'x' is neither a number nor a range"},
      {{"sample", path("dit"), "--classes", "0", "--steps", "5000"}, "more than the model was trained with"},
      {{"sample", path("dit"), "--classes", "0", "--steps", "1", "-o", path("no/such/grid.png")}, "no/such/grid.png"},
      {{"eval", path("deit"), "--data", path("nowhere")}, "nowhere"},
      {{"sample", path("dit"), "--steps", "1", "--singles", path("deit")}, "is not empty"},
      {{"compare-images", "a", "b", "--features", path("nowhere")}, "nowhere"},
      {{"compare-images", path("nowhere"), path("nowhere"), "--features", path("deit")}, "nowhere"},
      {{"train", "deit-cifar10", "--set", "data.images=" + path("nowhere"), "--out", path("x")}, "does not exist"},
  };
  expect_refused(cases);
}

// Hours of training are not lost because pictures for its end have become unreadable.
TEST(ImageEvaluation, ThatFailsLeavesTheWeightsSaved) {
  const TempFolder folder;
  for (const char* name : {"train/cat", "train/dog", "test/cat", "test/dog"}) paint(folder / "data/" + name, 6);
  const auto train = [&](int steps) {
    return image_train("deit", folder / "run",
                       {"data.source=folder", "data.images=" + folder / "data", "data.corrupt=skip",
                        "train.steps=" + std::to_string(steps)});
  };
  for (const char* name : {"cat", "dog"})
    for (int i = 0; i < 6; ++i) write(folder / "data/test/" + name + "/" + std::to_string(i) + ".png", "no picture");
  const Outcome o = run_siamese(train(2));
  EXPECT_EQ(o.status, 1) << o.out;
  EXPECT_TRUE(contains(o.err, "pictures can be read (8 of folder")) << o.err;
  EXPECT_TRUE(contains(o.err, "the weights are saved")) << o.err;
  EXPECT_TRUE(fs::exists(folder / "run/checkpoints/step-00000002/manifest.json"));
  for (const char* name : {"cat", "dog"}) paint(folder / "data/test/" + name, 6);
  const Outcome resumed = run_siamese(train(2) + Args{"--resume"});  // what had failed is made up
  EXPECT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_TRUE(contains(resumed.out, "at step 2")) << resumed.out;
  EXPECT_TRUE(contains(resumed.err, "step 2: validation_loss")) << resumed.err;
  EXPECT_TRUE(contains(read(folder / "run/metrics.jsonl"), "validation_loss"));
  EXPECT_FALSE(contains(run_siamese(train(2) + Args{"--resume"}).err, "nor could")) << "again";
}

TEST(ImagePictures, ThatCannotBeWrittenCostNoRun) {
  const TempFolder folder;
  fs::create_directories(folder / "run/samples-00000002.png/in the way");
  const Outcome o =
      run_siamese(image_train("dit", folder / "run", {"data.shapes=40", "train.steps=3", "diffusion.sample_every=2"}));
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_TRUE(contains(o.err, "no picture of step 2: ")) << o.err;
  EXPECT_TRUE(fs::is_regular_file(folder / "run/samples-00000003.png"));
  EXPECT_TRUE(fs::exists(folder / "run/checkpoints/step-00000003/manifest.json"));
}

// A folder renamed changes what the labels mean, though not how many there are.
TEST(ImageClasses, ResumeWantsTheSame) {
  const TempFolder folder;
  for (const char* name : {"cat", "dog"}) paint(folder / "data/" + name, 6);
  const auto train = [&](int steps) {
    return image_train(
        "deit", folder / "run",
        {"data.source=folder", "data.images=" + folder / "data", "train.steps=" + std::to_string(steps)});
  };
  ASSERT_EQ(run_siamese(train(2)).status, 0);
  fs::rename(folder / "data/dog", folder / "data/wolf");
  const std::pair<Args, std::string> renamed[] = {
      {train(4) + Args{"--resume"}, "class 1 of the data is 'wolf' now, 'dog' in "}};
  expect_refused(renamed);
  fs::rename(folder / "data/wolf", folder / "data/dog");
  const Outcome o = run_siamese(train(4) + Args{"--resume"});
  EXPECT_EQ(o.status, 0) << o.err;
}

}  // namespace
}  // namespace siamese::test
