// Image models through the training loop: they learn, repeat themselves, resume digit for digit, draw and are judged.
#include <cmath>
#include <nlohmann/json.hpp>

#include "images/codec.h"
#include "io/safetensors.h"
#include "nn/tensor_io.h"
#include "tiny.h"
#include "train/checkpoint.h"
#include "train/deit_task.h"
#include "train/dit_task.h"
#include "train/models.h"
#include "train/samples.h"
#include "train_request.h"

namespace siamese {
namespace {

/// 12 steps on drawn shapes.
Recipe shapes_recipe(const std::string& family, const std::vector<std::string>& more = {}) {
  std::vector<std::string> set = {"model.family=" + family,
                                  "model.d_model=16",
                                  "model.n_layers=2",
                                  "model.n_heads=2",
                                  "model.mlp_hidden_size=32",
                                  "model.image_size=8",
                                  "model.patch_size=4",
                                  "data.source=shapes",
                                  "data.shapes=40",
                                  "train.batch_size=8",
                                  "train.micro_batch_size=4",
                                  "train.steps=12",
                                  "train.warmup_steps=2",
                                  "eval.every=6",
                                  "eval.batches=1",
                                  "checkpoint.every=6",
                                  "train.ema=0.9"};
  if (family == "dit") set.push_back("diffusion.sample_steps=3");
  set.insert(set.end(), more.begin(), more.end());
  return parse_recipe("", "test.yaml", set);
}

std::vector<nlohmann::json> metrics(const std::string& run) {
  std::istringstream in(slurp(run + "/metrics.jsonl"));
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(in, line);) {
    lines.push_back(nlohmann::json::parse(line));
    lines.back().erase("images_per_s");
  }
  return lines;
}

const std::vector<std::string> kAugmented = {"augment.crop=padded",    "augment.padding=1",     "augment.flip=0.5",
                                             "augment.rand_augment=9", "augment.erasing=0.5",   "augment.mixup=0.8",
                                             "augment.cutmix=1.0",     "augment.smoothing=0.1", "augment.repeats=2",
                                             "model.drop_path=0.3",    "train.layer_decay=0.8"};

class ImageTasks : public testing::TestWithParam<std::string> {
 protected:
  Recipe recipe(std::vector<std::string> more = {}) const {
    if (GetParam() == "deit") more.insert(more.end(), kAugmented.begin(), kAugmented.end());
    return shapes_recipe(GetParam(), more);
  }
};
INSTANTIATE_TEST_SUITE_P(Families, ImageTasks, testing::Values("deit", "dit"));

TEST_P(ImageTasks, TwoRunsAreTheSameWhateverTheWorkers) {
  const TempFolder a, b;
  const TrainResult result = quiet_train(request(recipe({"data.workers=1"}), a.path()));
  quiet_train(request(recipe({"data.workers=3"}), b.path()));
  EXPECT_EQ(metrics(a.path()), metrics(b.path()));
  EXPECT_EQ(result.unit, "image");
  EXPECT_EQ(result.step, 12);
  const auto lines = metrics(a.path());
  EXPECT_EQ(lines.front().at("images"), 8);
  EXPECT_EQ(slurp(find_checkpoint(a.path()).folder() + "/model.safetensors"),
            slurp(find_checkpoint(b.path()).folder() + "/model.safetensors"));
}

TEST_P(ImageTasks, ResumedRunContinuesDigitForDigit) {
  const TempFolder whole, cut;
  quiet_train(request(recipe(), whole.path()));
  quiet_train(request(recipe(), cut.path()));
  // The run as it was when its first checkpoint was written.
  std::filesystem::remove_all(find_checkpoint(cut.path()).folder());
  quiet_train(request(recipe(), cut.path(), OpenMode::resume));
  EXPECT_EQ(metrics(whole.path()), metrics(cut.path()));
}

TEST_P(ImageTasks, AveragedWeightsAreJudgedToo) {
  const TempFolder run;
  quiet_train(request(recipe(), run.path()));
  for (const auto& line : metrics(run.path()))
    if (line.contains("validation_loss")) {
      EXPECT_TRUE(line.contains("ema_validation_loss"));
      EXPECT_NE(line.at("validation_loss"), line.at("ema_validation_loss"));
    }
}

/// Micro-batches add up to the batch: no draw depends on how it is cut.
TEST_P(ImageTasks, MicroBatchesAddUp) {
  const TempFolder one, many;
  quiet_train(request(recipe({"train.micro_batch_size=8", "train.steps=1"}), one.path()));
  quiet_train(request(recipe({"train.micro_batch_size=2", "train.steps=1"}), many.path()));
  EXPECT_NEAR(metrics(one.path())[0].at("loss").get<double>(), metrics(many.path())[0].at("loss").get<double>(), 1e-5);
}

TEST(ImageTasks, ClassifierLearns) {
  const TempFolder run;
  quiet_train(request(shapes_recipe("deit", {"train.steps=200", "train.lr=2e-3", "data.shapes=20", "model.d_model=32",
                                             "model.image_size=16", "train.batch_size=16", "train.micro_batch_size=16",
                                             "eval.every=0", "eval.batches=0"}),
                      run.path()));
  const auto lines = metrics(run.path());
  EXPECT_LT(lines[199].at("loss").get<double>(), 0.3 * lines[0].at("loss").get<double>());  // twenty by heart
  EXPECT_GT(lines.back().at("top5").get<double>(), lines.back().at("accuracy").get<double>());
}

TEST(ImageTasks, DiffusionLearnsAndDraws) {
  const TempFolder run;
  const Recipe recipe = shapes_recipe("dit", {"train.steps=40", "train.lr=3e-3", "diffusion.sample_every=20"});
  quiet_train(request(recipe, run.path()));
  const auto lines = metrics(run.path());
  EXPECT_LT(lines.back().at("validation_loss").get<double>(), 0.9);
  for (const char* name : {"samples-00000020.png", "samples-00000040.png"}) {
    const Image grid = read_image(run.path() + "/" + name);
    EXPECT_EQ(grid.width, 8 * 8 + 7 * 2) << name;  // eight a class, two pixels between
    EXPECT_EQ(grid.height, 10 * 8 + 9 * 2) << name;
  }
}

TEST(ImageTasks, SamplesRepeatAndDoNotDependOnTheBatch) {
  const Recipe recipe = shapes_recipe("dit", {"model.classes=10"});
  const auto model = make_dit(recipe, at::kCPU);
  fill_randomly(model->params());
  SampleRequest r;
  r.labels = {0, 1, 2, 3, 4};
  r.steps = 4, r.cfg = 2;
  const at::Tensor all = sample(*model, recipe, r);
  r.batch = 2;
  EXPECT_TRUE(at::allclose(sample(*model, recipe, r), all, 1e-4, 1e-5));
  r.seed = 2;
  EXPECT_FALSE(at::allclose(sample(*model, recipe, r), all, 1e-2, 1e-2));
  r.labels = {10};
  EXPECT_THROW(sample(*model, recipe, r), Error);
  r.labels = {1}, r.steps = 5000;
  EXPECT_THROW(sample(*model, recipe, r), Error);
}

TEST(ImageTasks, TeacherIsFollowed) {
  const TempFolder teacher, student;
  quiet_train(request(shapes_recipe("deit"), teacher.path()));
  for (const char* kind : {"hard", "soft"}) {
    const Recipe r = shapes_recipe(
        "deit", {std::string("distill.kind=") + kind, "distill.teacher=" + teacher.path(), "model.distilled=true"});
    EXPECT_EQ(quiet_train(request(r, student.path(), OpenMode::overwrite)).step, 12) << kind;
  }
  const Recipe wrong =
      shapes_recipe("deit", {"distill.kind=hard", "distill.teacher=" + teacher.path(), "model.image_size=16"});
  EXPECT_THROW(quiet_train(request(wrong, student.path(), OpenMode::overwrite)), Error);
}

/// What decides a run's losses is fixed; how fast and by whom pictures are read is not.
TEST(ImageTasks, ResumeKnowsWhatMayChange) {
  const TempFolder run;
  quiet_train(request(shapes_recipe("dit"), run.path()));
  auto resumed = [&](const std::vector<std::string>& set) {
    return quiet_train(request(shapes_recipe("dit", set), run.path(), OpenMode::resume)).step;
  };
  for (const char* key : {"diffusion.predict=v", "diffusion.schedule=cosine", "augment.flip=0.5", "augment.repeats=2"})
    EXPECT_THROW(resumed({key}), Error) << key;
  EXPECT_EQ(resumed({"data.workers=2", "data.cache=off", "data.corrupt=skip", "diffusion.sample_steps=2"}), 12);
}

TEST(ImageTasks, WeightsFollowTheResolution) {
  const TempFolder small, large;
  quiet_train(request(shapes_recipe("deit"), small.path()));
  TrainRequest r = request(shapes_recipe("deit", {"model.image_size=16", "train.steps=1"}), large.path());
  r.init_from = small.path();
  EXPECT_EQ(quiet_train(r).step, 1);
}

TEST(ImageTasks, LatentsTrain) {
  const TempFolder folder;
  const std::string file = folder.path() + "/latents.safetensors";
  save_tensors(file, {{"latents", at::randn({45, 4, 8, 8}).to(at::kHalf)}, {"labels", at::arange(45) % 3}});
  const Recipe r =
      shapes_recipe("dit", {"data.source=latents", "data.shapes=20000", "data.images=" + file, "model.channels=4"});
  EXPECT_EQ(quiet_train(request(r, folder.path() + "/run")).step, 12);
  EXPECT_EQ(find_checkpoint(folder.path() + "/run").recipe().model.classes, 3);
  const Recipe wrong = shapes_recipe("dit", {"data.source=latents", "data.shapes=20000", "data.images=" + file});
  EXPECT_THROW(quiet_train(request(wrong, folder.path() + "/wrong")), Error);
}

/// Drawn latents are written in the scale of the file, so that a set of them reads back as what was drawn.
TEST(ImageTasks, LatentsAreWritten) {
  const TempFolder folder;
  const std::string file = folder.file("drawn.safetensors");
  const Recipe r = shapes_recipe("dit", {"data.source=latents", "data.shapes=20000", "data.images=" + file,
                                         "model.channels=4", "model.classes=3", "diffusion.latent_scale=0.25"});
  const auto model = make_dit(r, at::kCPU);
  fill_randomly(model->params());
  SampleRequest request;
  request.labels = {2, 2, 0, 1, 1}, request.steps = 3, request.cfg = 2;
  const at::Tensor drawn = sample(*model, r, request);
  write_latents(file, drawn, r, request.labels);
  const SafetensorsFile read(file);
  const at::Tensor latents = to_tensor(read.at("latents"));
  ASSERT_EQ(latents.sizes(), at::IntArrayRef({5, 4, 8, 8}));
  EXPECT_EQ(latents.scalar_type(), at::kFloat);
  EXPECT_TRUE(at::equal(latents, 4 * drawn));
  EXPECT_TRUE(at::equal(to_tensor(read.at("labels")), at::tensor({2, 2, 0, 1, 1}, at::kLong)));
  const EvaluationBatch again = evaluation_batch(*image_sets_of(r).validation, r, 0, 5, at::kCPU);
  EXPECT_TRUE(at::equal(again.images, drawn));
  EXPECT_NE(error_of([&] { write_latents(file, drawn, shapes_recipe("dit"), request.labels); }), "");
}

TEST(ImageTasks, SamplesAreRefusedBeforeTheyAreDrawn) {
  const TempFolder folder;
  require_file_place(folder.file("grid.png"));
  EXPECT_EQ(error_of([&] { require_file_place(folder.path()); }),
            folder.path() + ": is a folder, expected the name of a file");
  EXPECT_EQ(error_of([&] { require_file_place(folder.file("no/grid.png")); }),
            folder.file("no/grid.png") + ": the folder " + folder.file("no") + " does not exist");
  const Recipe recipe = shapes_recipe("dit", {"model.classes=10"});
  const auto model = make_dit(recipe, at::kCPU);
  SampleRequest r;
  r.labels = {0}, r.steps = 2;
  for (const double bad : {NAN, INFINITY}) {
    r.cfg = bad, r.eta = 0;
    EXPECT_NE(error_of([&] { sample(*model, recipe, r); }).find("must be finite"), std::string::npos);
    r.cfg = 2, r.eta = bad;
    EXPECT_NE(error_of([&] { sample(*model, recipe, r); }).find("must be finite"), std::string::npos);
  }
}

TEST(ImageTasks, EverySchemeTrainsInBothFamilies) {
  for (const std::string& scheme : scheme_names())
    for (const char* family : {"deit", "dit"}) {
      const TempFolder run;
      std::vector<std::string> set = {"model.scheme=" + scheme, "train.steps=2", "eval.every=0"};
      if (std::string(family) == "dit") set.insert(set.end(), {"diffusion.sample_steps=1", "diffusion.sample_cfg=1"});
      const Recipe r = shapes_recipe(family, set);
      EXPECT_EQ(quiet_train(request(r, run.path())).step, 2) << scheme << " in " << family;
    }
}

}  // namespace
}  // namespace siamese
