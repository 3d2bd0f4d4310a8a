// `siamese sample` of a latent model, and what image models refuse by the name of its key.
#include <gtest/gtest.h>

#include <cstring>
#include <span>

#include "image_runs.h"
#include "io/safetensors.h"

namespace siamese::test {
namespace {

/// A latent model trained on noise, and a classifier.
class Sample : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TempFolder;
    std::vector<float> values(40 * 4 * 8 * 8);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 7919 % 101) - 50;
    std::vector<int64_t> labels(40);
    for (size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<int64_t>(i % 3);
    write_safetensors(path("data.safetensors"),
                      {{"latents", DType::F32, {40, 4, 8, 8}, std::as_bytes(std::span(values))},
                       {"labels", DType::I64, {40}, std::as_bytes(std::span(labels))}},
                      {});
    const Args latents = {"data.source=latents", "data.images=" + path("data.safetensors"), "model.channels=4",
                          "diffusion.latent_scale=0.02"};
    for (const Args& args : {image_train("dit", path("latent"), latents), image_train("dit", path("pixel")),
                             image_train("deit", path("deit"))}) {
      const Outcome o = run_siamese(args);
      ASSERT_EQ(o.status, 0) << o.err;
    }
  }
  static void TearDownTestSuite() { delete folder_; }
  static TempFolder* folder_;

  static std::string path(const std::string& name) { return *folder_ / name; }
};
TempFolder* Sample::folder_ = nullptr;

TEST_F(Sample, LatentsAreWritten) {
  const Args args = {"sample", path("latent"), "--classes", "2,0", "--each", "2", "--steps", "3", "-o", path("a.png")};
  const Outcome o = run_siamese(args + Args{"--latents", path("a.safetensors"), "--batch", "3"});
  ASSERT_EQ(o.status, 0) << o.err;
  EXPECT_TRUE(contains(o.out, "wrote   " + path("a.safetensors"))) << o.out;
  EXPECT_TRUE(read(path("a.png")).starts_with("\x89PNG"));
  const SafetensorsFile file(path("a.safetensors"));
  EXPECT_EQ(file.at("latents").shape, (std::vector<int64_t>{4, 4, 8, 8}));
  EXPECT_EQ(file.at("latents").dtype, DType::F32);
  ASSERT_EQ(file.at("labels").shape, std::vector<int64_t>{4});
  int64_t labels[4];
  std::memcpy(labels, file.at("labels").bytes.data(), sizeof labels);
  EXPECT_EQ(std::vector<int64_t>(labels, labels + 4), (std::vector<int64_t>{2, 2, 0, 0}));
  // It is a file to train on.
  const Outcome again = run_siamese(image_train("dit", path("again"),
                                                {"data.source=latents", "data.images=" + path("a.safetensors"),
                                                 "model.channels=4", "model.classes=3", "train.steps=1"}));
  EXPECT_EQ(again.status, 0) << again.err;
}

TEST_F(Sample, NotANumberIsRefused) {
  for (const char* option : {"--cfg", "--eta"})
    for (const char* number : {"nan", "-nan", "inf", "-inf"}) {
      const Outcome o = run_siamese({"sample", path("pixel"), "--steps", "1", option, number, "-o", path("n.png")});
      EXPECT_NE(o.status, 0) << option << ' ' << number;
      EXPECT_TRUE(contains(o.err, option)) << o.err;
      EXPECT_FALSE(fs::exists(path("n.png")));
    }
}

TEST_F(Sample, MessagesNameTheKey) {
  const Args one = {"sample", path("pixel"), "--steps", "1"};
  auto train = [](const std::string& family, const Args& set) { return image_train(family, path("x"), set); };
  const std::pair<Args, std::string> cases[] = {
      {one + Args{"-o", path("deit")}, path("deit") + ": is a folder, expected the name of a file"},
      {one + Args{"--latents", path("deit")}, path("deit") + ": is a folder"},
      {one + Args{"--latents", path("x.safetensors")}, "the model draws pixels (data.source shapes)"},
      {train("deit", {"model.channels=4"}), "model.channels (4) must be 1 (grey) or 3 (colour)"},
      {train("deit", {"distill.kind=hard", "distill.teacher=nope"}), "distill.teacher: nope: no such file or folder"},
      {train("deit", {"train.z_loss=0.1"}), "--set train.z_loss=0.1: train.z_loss is an option of lm"},
      {{"train", "dit-b2", "--out", path("x"), "--set", "augment.flip=0.5"},
       "--set augment.flip=0.5: augment.flip (0.5) is for pictures"},
      {train("deit", {"model.distilled=true"}) + Args{"--init-from", path("deit")},
       "model.safetensors: its model.distilled is false, that of this model true"},
  };
  expect_refused(cases);
}

}  // namespace
}  // namespace siamese::test
