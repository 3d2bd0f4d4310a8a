// The training loop: reproducible, resumable digit for digit, and it stops where it must.
#include <signal.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include "tiny.h"
#include "train/checkpoint.h"
#include "train_request.h"

namespace siamese {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// metrics.jsonl without the speed, which is the only thing that may differ.
std::vector<std::string> metrics(const std::string& run) {
  std::istringstream in(slurp(run + "/metrics.jsonl"));
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    json j = json::parse(line);
    j.erase("tokens_per_s");
    lines.push_back(j.dump());
  }
  return lines;
}

/// The newest checkpoints of two runs, file by file.
void expect_same_weights(const std::string& a, const std::string& b) {
  const Checkpoint x = find_checkpoint(a), y = find_checkpoint(b);
  EXPECT_EQ(x.state().step, y.state().step);
  for (const char* file : {"model.safetensors", "optimizer.safetensors", "ema.safetensors"}) {
    ASSERT_EQ(x.has(file), y.has(file)) << file;
    if (x.has(file)) {
      EXPECT_EQ(slurp(x.folder() + "/" + file), slurp(y.folder() + "/" + file)) << file;
    }
  }
}

const std::vector<std::string> kDropout = {"model.embedding_dropout=0.1", "model.residual_dropout=0.1",
                                           "model.attention_dropout=0.1", "model.drop_path=0.3"};

std::vector<std::string> with_dropout(std::vector<std::string> more) {
  more.insert(more.end(), kDropout.begin(), kDropout.end());
  return more;
}

TEST(Trainer, TwoRunsAreTheSame) {
  for (const char* source : {"sentences", "arithmetic"}) {
    const TempFolder a, b, c;
    const Recipe recipe = pico_recipe(with_dropout({fmt::format("data.source={}", source)}));
    const TrainResult result = quiet_train(request(recipe, a.path()));
    quiet_train(request(recipe, b.path()));
    EXPECT_EQ(metrics(a.path()), metrics(b.path()));
    expect_same_weights(a.path(), b.path());
    EXPECT_EQ(result.step, 12);
    EXPECT_EQ(result.signal, 0);
    Recipe other = recipe;
    other.train.seed = 2;
    quiet_train(request(other, c.path()));
    EXPECT_NE(metrics(a.path()), metrics(c.path()));
  }
}

TEST(Trainer, ThreadsRepeatThemselvesToo) {
  const TempFolder a, b;
  at::set_num_threads(2);
  for (const TempFolder* run : {&a, &b}) quiet_train(request(pico_recipe(kDropout), run->path()));
  at::set_num_threads(kThreads);
  EXPECT_EQ(metrics(a.path()), metrics(b.path()));
  expect_same_weights(a.path(), b.path());
}

TEST(Trainer, WritesWhatTheRecipeAsksFor) {
  const TempFolder run;
  quiet_train(request(pico_recipe({"data.source=arithmetic"}), run.path()));
  std::vector<int64_t> steps, evaluations;
  for (const std::string& line : metrics(run.path())) {
    const json j = json::parse(line);
    (j.contains("loss") ? steps : evaluations).push_back(j["step"].get<int64_t>());
    EXPECT_EQ(j.contains("exact_match"), !j.contains("loss"));
  }
  EXPECT_EQ(steps, (std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
  // Every 4 steps, and with every checkpoint (5, 10, the end) so that the best one is known.
  EXPECT_EQ(evaluations, (std::vector<int64_t>{4, 5, 8, 10, 12}));
  EXPECT_EQ(list_checkpoints(run.path()).size(), 3u);
  EXPECT_EQ(load_recipe(run.file("recipe.yaml")).model.vocab_size, 256);
  EXPECT_EQ(find_checkpoint(run.path()).state().tokens, 12 * 4 * 24);
}

TEST(Trainer, LossFalls) {
  const TempFolder run;
  quiet_train(request(pico_recipe({"train.steps=60", "eval.every=0", "checkpoint.every=0"}), run.path()));
  const std::vector<std::string> lines = metrics(run.path());
  EXPECT_LT(json::parse(lines[59])["loss"].get<double>(), json::parse(lines[0])["loss"].get<double>() - 1.5);
}

class TrainerResume : public testing::TestWithParam<std::vector<std::string>> {};
INSTANTIATE_TEST_SUITE_P(
    Settings, TrainerResume,
    testing::Values(std::vector<std::string>{},
                    with_dropout({"train.ema=0.9", "train.micro_batch_size=2", "data.document_masking=true",
                                  "train.z_loss=1e-4"}),
                    with_dropout({"train.precision=bfloat16", "train.ema=0.9", "train.micro_batch_size=1"}),
                    with_dropout({"train.precision=bfloat16", "model.stream_dtype=float32", "data.source=arithmetic",
                                  "train.recompute=block", "model.scheme=mhc"})));

// The same run, once in one piece and once again from its checkpoint at step 5, over what was there.
TEST_P(TrainerResume, EqualsTheRunInOnePiece) {
  const TempFolder whole, cut;
  const Recipe recipe = pico_recipe(GetParam());
  quiet_train(request(recipe, whole.path()));
  fs::copy(whole.path(), cut.path(), fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  // A half-written line, as a kill leaves it.
  spill(cut.file("metrics.jsonl"), slurp(cut.file("metrics.jsonl")) + "{\"step\": 13, \"lo");
  TrainRequest resume = request(recipe, cut.path(), OpenMode::resume);
  resume.from = cut.file("checkpoints/step-00000005");
  quiet_train(resume);
  EXPECT_EQ(metrics(cut.path()), metrics(whole.path()));
  expect_same_weights(whole.path(), cut.path());
  EXPECT_EQ(list_checkpoints(cut.path()).size(), 3u);
}

// Without --from the newest counts; the process that ended early did so because it was told fewer steps.
TEST(Trainer, ResumesFromTheNewest) {
  const TempFolder whole, cut;
  const std::vector<std::string> constant = with_dropout({"train.schedule=constant", "train.ema=0.5"});
  quiet_train(request(pico_recipe(constant), whole.path()));
  Recipe shorter = pico_recipe(constant);
  shorter.train.steps = 8;
  quiet_train(request(shorter, cut.path()));
  const TrainResult result = quiet_train(request(pico_recipe(constant), cut.path(), OpenMode::resume));
  EXPECT_EQ(result.step, 12);
  expect_same_weights(whole.path(), cut.path());
  EXPECT_EQ(metrics(whole.path()), metrics(cut.path()));
  // Nothing left to do: nothing changes.
  quiet_train(request(pico_recipe(constant), cut.path(), OpenMode::resume));
  EXPECT_EQ(metrics(whole.path()), metrics(cut.path()));
}

// A second resume from the same place must not trip over what the first one set aside; neither over a trailing slash.
TEST(Trainer, ResumesTwiceFromTheSamePlace) {
  const TempFolder run;
  quiet_train(request(pico_recipe(), run.path()));
  const std::vector<std::string> want = metrics(run.path());
  for (int i = 0; i < 2; ++i) {
    TrainRequest resume = request(pico_recipe(), run.path(), OpenMode::resume);
    resume.from = run.file("checkpoints/step-00000005/");
    quiet_train(resume);
    EXPECT_EQ(metrics(run.path()), want);
    EXPECT_TRUE(fs::exists(run.file("checkpoints/step-00000005/manifest.json")));
    EXPECT_EQ(list_checkpoints(run.path()).size(), 3u);
  }
}

TEST(Trainer, SignalsSaveAndTheRestIsTheSame) {
  const TempFolder run, whole;
  const std::vector<std::string> endless = {"train.schedule=constant", "eval.every=0", "checkpoint.every=0"};
  Recipe recipe = pico_recipe(endless);
  recipe.train.steps = 1000000;
  // The handlers stand before the first line is written.
  std::thread kill([&] {
    while (slurp(run.file("metrics.jsonl")).find("\"step\": 3") == std::string::npos)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    ::kill(::getpid(), SIGTERM);
  });
  const TrainResult stopped = quiet_train(request(recipe, run.path()));
  kill.join();
  EXPECT_EQ(stopped.signal, SIGTERM);
  EXPECT_GE(stopped.step, 3);
  EXPECT_EQ(find_checkpoint(run.path()).state().step, stopped.step);
  recipe.train.steps = stopped.step + 3;
  EXPECT_EQ(quiet_train(request(recipe, run.path(), OpenMode::resume)).signal, 0);
  quiet_train(request(recipe, whole.path()));
  EXPECT_EQ(metrics(run.path()), metrics(whole.path()));
  expect_same_weights(run.path(), whole.path());
}

// Sentences are documents; arithmetic has none, so there the switch must change nothing.
TEST(Trainer, DocumentMaskingIsUsed) {
  for (const char* source : {"sentences", "arithmetic"}) {
    const TempFolder a, b;
    const std::string set = fmt::format("data.source={}", source);
    for (const auto& [run, masking] : {std::pair{&a, "true"}, {&b, "false"}})
      quiet_train(request(pico_recipe({set, fmt::format("data.document_masking={}", masking), "train.steps=3",
                                       "train.sequence_length=300", "eval.every=0"}),
                          run->path()));
    const double with = json::parse(metrics(a.path())[2])["loss"].get<double>();
    const double without = json::parse(metrics(b.path())[2])["loss"].get<double>();
    if (std::string_view(source) == "sentences") {
      EXPECT_GT(std::abs(with - without), 1e-6);
    } else {
      EXPECT_NEAR(with, without, 1e-5);
    }
  }
}

TEST(Trainer, RecomputingIsTheSameRun) {
  for (const char* scheme : {"siamese_hybrid", "peri", "hc_dynamic"}) {
    const TempFolder a, b;
    const std::string set = fmt::format("model.scheme={}", scheme);
    quiet_train(request(pico_recipe(with_dropout({set})), a.path()));
    quiet_train(request(pico_recipe(with_dropout({set, "train.recompute=block"})), b.path()));
    EXPECT_EQ(metrics(a.path()), metrics(b.path())) << scheme;
    expect_same_weights(a.path(), b.path());
  }
}

}  // namespace
}  // namespace siamese
