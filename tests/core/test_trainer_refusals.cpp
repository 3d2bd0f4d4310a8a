// What the training loop refuses, and what it leaves behind when it stops.
#include "tiny.h"
#include "train/checkpoint.h"
#include "train_request.h"

namespace siamese {
namespace {

namespace fs = std::filesystem;

std::string train_error(const TrainRequest& r) {
  return error_of([&] { quiet_train(r); });
}

Recipe short_recipe(std::vector<std::string> more = {}) {
  more.insert(more.end(), {"train.steps=2", "eval.every=0", "checkpoint.every=1", "eval.batches=1"});
  return pico_recipe(more);
}

TEST(TrainerRefuses, AFolderThatHoldsARun) {
  const TempFolder run;
  quiet_train(request(short_recipe(), run.path()));
  const std::string before = slurp(run.file("metrics.jsonl"));
  const std::string error = train_error(request(short_recipe(), run.path()));
  EXPECT_NE(error.find(run.path()), std::string::npos) << error;
  EXPECT_NE(error.find("--resume"), std::string::npos) << error;
  EXPECT_EQ(slurp(run.file("metrics.jsonl")), before);
}

TEST(TrainerRefuses, AnotherModelOnResume) {
  const TempFolder run;
  quiet_train(request(short_recipe(), run.path()));
  const std::string before = slurp(run.file("metrics.jsonl")), recipe = slurp(run.file("recipe.yaml"));
  for (const char* change : {"model.n_heads=4", "model.scheme=pre", "data.source=arithmetic", "model.drop_path=0.1",
                             "train.precision=bfloat16", "data.shuffle=false"}) {
    const std::string error = train_error(request(short_recipe({change}), run.path(), OpenMode::resume));
    EXPECT_NE(error, "") << change;
  }
  const std::string named = train_error(request(short_recipe({"model.n_heads=4"}), run.path(), OpenMode::resume));
  EXPECT_NE(named.find("n_heads: 4"), std::string::npos) << named;
  EXPECT_NE(named.find("n_heads: 2"), std::string::npos) << named;
  EXPECT_EQ(slurp(run.file("metrics.jsonl")), before);
  EXPECT_EQ(slurp(run.file("recipe.yaml")), recipe);
  // An average that was never kept cannot be continued.
  EXPECT_NE(train_error(request(short_recipe({"train.ema=0.9"}), run.path(), OpenMode::resume)), "");
}

TEST(TrainerRefuses, ADamagedCheckpoint) {
  const TempFolder run;
  quiet_train(request(short_recipe(), run.path()));
  spill(run.file("checkpoints/step-00000002/optimizer.safetensors"), "gone");
  const std::string error = train_error(request(short_recipe(), run.path(), OpenMode::resume));
  EXPECT_NE(error.find("optimizer.safetensors"), std::string::npos) << error;
  EXPECT_NE(error.find("step-00000001"), std::string::npos) << error;
}

TEST(TrainerRefuses, ASecondProcessInTheFolder) {
  const TempFolder run;
  const RunFolder first(run.path(), OpenMode::fresh);
  EXPECT_NE(train_error(request(short_recipe(), run.path(), OpenMode::resume)).find("another process"),
            std::string::npos);
}

TEST(TrainerOpens, OverwriteRemovesTheRunAndNothingElse) {
  const TempFolder run;
  quiet_train(request(short_recipe(), run.path()));
  spill(run.file("notes.txt"), "mine");
  Recipe other = short_recipe({"model.scheme=pre"});
  other.train.steps = 1;
  quiet_train(request(other, run.path(), OpenMode::overwrite));
  EXPECT_EQ(slurp(run.file("notes.txt")), "mine");
  EXPECT_EQ(list_checkpoints(run.path()).size(), 1u);
  EXPECT_EQ(find_checkpoint(run.path()).recipe().model.scheme, "pre");
}

TEST(TrainerOpens, ResumeOfNothingBegins) {
  const TempFolder run;
  EXPECT_EQ(quiet_train(request(short_recipe(), run.file("new/folder"), OpenMode::resume)).step, 2);
}

TEST(TrainerInitFrom, TakesTheWeightsAndNothingElse) {
  const TempFolder first, second, fresh;
  quiet_train(request(short_recipe(), first.path()));
  Recipe still = short_recipe({"train.ema=0.9"});
  still.train.lr = 1e-30;  // nothing moves, so that what was loaded can be seen
  still.train.steps = 1;
  still.train.warmup_steps = 0;
  TrainRequest r = request(still, second.path());
  r.init_from = first.path();
  quiet_train(r);
  const Checkpoint from = find_checkpoint(first.path()), to = find_checkpoint(second.path());
  EXPECT_EQ(to.state().step, 1);
  for (const char* file : {"model.safetensors", "ema.safetensors"}) {
    const SafetensorsFile a = from.open("model.safetensors"), b = to.open(file);
    for (const auto& [name, view] : a.tensors())
      EXPECT_LE(relative_error(to_tensor(b.at(name)), to_tensor(view)), 1e-7) << file << " " << name;
  }
  TrainRequest wrong = request(short_recipe({"model.scheme=pre"}), fresh.path());
  wrong.init_from = first.path();
  const std::string error = train_error(wrong);
  EXPECT_NE(error.find("model.safetensors: there is no tensor"), std::string::npos) << error;
  wrong.init_from = first.file("nothing");
  EXPECT_NE(train_error(wrong).find("nothing"), std::string::npos);
}

// Whatever the scheme, a run that blows up says where.
TEST(TrainerStops, AtTheFirstBadValue) {
  for (const char* scheme : {"siamese_hybrid", "pre", "post", "mhc"}) {
    const TempFolder run;
    Recipe recipe = short_recipe({fmt::format("model.scheme={}", scheme), "train.clip=0", "train.warmup_steps=0"});
    recipe.train.lr = 1e30;
    recipe.train.steps = 10;
    recipe.checkpoint.every = 0;
    const std::string error = train_error(request(recipe, run.path()));
    EXPECT_TRUE(error.starts_with("step ")) << scheme << ": " << error;
    EXPECT_NE(error.find("first bad tensor: "), std::string::npos) << error;
    EXPECT_EQ(error.find("not found"), std::string::npos) << error;
    EXPECT_NE(error.find("train.lr"), std::string::npos) << error;
    EXPECT_TRUE(list_checkpoints(run.path()).empty());
  }
}

// An update may ruin the weights though its gradient is finite: the checkpoint before it stays the newest.
TEST(TrainerStops, BeforeItSavesWhatIsNotFinite) {
  for (const auto& [lr, culprit] : {std::pair{1e30, "the validation loss"}, {3e38, "parameter transformer."}}) {
    const TempFolder run;
    Recipe recipe = short_recipe({"train.clip=0", "train.warmup_steps=0"});
    quiet_train(request(recipe, run.path()));
    recipe.train.lr = lr;
    recipe.train.steps = 10;
    const std::string error = train_error(request(recipe, run.path(), OpenMode::resume));
    EXPECT_TRUE(error.starts_with("step 3: ")) << error;
    for (const char* part : {culprit, "not saved", "step-00000002", "train.lr"})
      EXPECT_NE(error.find(part), std::string::npos) << part << "\n" << error;
    EXPECT_EQ(find_checkpoint(run.path()).state().step, 2);
  }
}

// A weight that is not a number is named itself: it lies before every intermediate.
TEST(TrainerStops, NamesABadParameter) {
  const TempFolder first, second;
  const Recipe recipe = short_recipe();
  quiet_train(request(recipe, first.path()));
  const Checkpoint good = find_checkpoint(first.path());
  CheckpointTensors bad;
  const SafetensorsFile file = good.open("model.safetensors");
  for (const auto& [name, view] : file.tensors()) bad.weights.emplace_back(name, to_tensor(view));
  for (auto& [name, tensor] : bad.weights)
    if (name == "transformer.blocks.1.ff_out.weight") tensor.view({-1})[5].fill_(NAN);
  save_checkpoint(second.path(), good.state(), bad, {});
  TrainRequest r = request(recipe, second.file("run"));
  r.init_from = second.path();
  const std::string error = train_error(r);
  EXPECT_NE(error.find("step 1: the loss is not finite"), std::string::npos) << error;
  EXPECT_NE(error.find("parameter transformer.blocks.1.ff_out.weight"), std::string::npos) << error;
}

}  // namespace
}  // namespace siamese
