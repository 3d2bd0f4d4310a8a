// Checkpoints: what was saved comes back, what is damaged is refused by name, what is whole is found.
#include <algorithm>

#include "tiny.h"
#include "train/checkpoint.h"
#include "util/files.h"

namespace siamese {
namespace {

namespace fs = std::filesystem;

CheckpointTensors tensors_of(int64_t step) {
  CheckpointTensors t;
  const double x = static_cast<double>(step);
  t.weights = {{"a", at::full({3, 4}, x)}, {"b", at::arange(7, at::kDouble) * x}};
  t.optimizer = {{"m.a", at::full({3, 4}, 0.1 * x)}, {"v.a", at::rand({3, 4})}};
  t.average = {{"a", at::full({3, 4}, -x)}};
  return t;
}

void save(const std::string& run, int64_t step, std::optional<double> loss = {}, int64_t keep = 10) {
  CheckpointConfig config;
  config.keep = keep;
  save_checkpoint(run, {step, 100 * step, loss, "name: x\n"}, tensors_of(step), config);
}

std::string folder_of(const TempFolder& run, int64_t step) {
  return run.file(fmt::format("checkpoints/step-{:08}", step));
}

std::vector<int64_t> steps(const std::string& run) {
  std::vector<int64_t> all;
  for (const std::string& folder : list_checkpoints(run)) all.push_back(Checkpoint(folder).state().step);
  return all;
}

const std::vector<std::string> kFiles = {"model.safetensors", "optimizer.safetensors", "ema.safetensors"};

TEST(Checkpoint, RoundTripIsBitwise) {
  const TempFolder run;
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const auto model = tiny_model(tiny_config(), dtype), other = tiny_model(tiny_config(), dtype, false, 2);
    TrainConfig t;
    t.ema = 0.9;
    Optimizer optimizer(model->params(), t);
    torch::autograd::backward({model->loss(random_ids(2, 6, 11), {}).total});
    optimizer.collect();
    optimizer.update(1e-2, 1);
    const CheckpointTensors saved{named(model->params()), optimizer.state(), optimizer.average()};
    save_checkpoint(run.path(), {7, 700, 1.25, to_yaml(pico_recipe())}, saved, {});

    const Checkpoint found = find_checkpoint(run.path());
    EXPECT_EQ(found.state().step, 7);
    EXPECT_EQ(found.state().tokens, 700);
    EXPECT_EQ(found.state().validation_loss, 1.25);
    EXPECT_EQ(found.recipe(), pico_recipe());
    Optimizer loaded(other->params(), t);
    load_tensors(found.open("model.safetensors"), named(other->params()));
    load_tensors(found.open("optimizer.safetensors"), loaded.state());
    load_tensors(found.open("ema.safetensors"), loaded.average());
    const CheckpointTensors back{named(other->params()), loaded.state(), loaded.average()};
    for (const auto part : {&CheckpointTensors::weights, &CheckpointTensors::optimizer, &CheckpointTensors::average}) {
      ASSERT_EQ((saved.*part).size(), (back.*part).size());
      for (size_t i = 0; i < (saved.*part).size(); ++i)
        EXPECT_TRUE(at::equal((saved.*part)[i].second, (back.*part)[i].second)) << (saved.*part)[i].first;
    }
  }
}

TEST(Checkpoint, EmptyPartsAreNotWritten) {
  const TempFolder run;
  CheckpointTensors t = tensors_of(1);
  t.average.clear();
  save_checkpoint(run.path(), {1, 1, {}, ""}, t, {});
  const Checkpoint c = find_checkpoint(run.path());
  EXPECT_FALSE(c.has("ema.safetensors"));
  EXPECT_FALSE(c.state().validation_loss.has_value());
  EXPECT_NE(error_of([&] { c.open("ema.safetensors"); }).find("ema.safetensors"), std::string::npos);
}

TEST(Checkpoint, ClassNamesAreKept) {
  const TempFolder run;
  auto saved = [&](std::vector<std::string> classes) {
    save_checkpoint(run.path(), {1, 1, {}, "", std::move(classes)}, tensors_of(1), {});
    return find_checkpoint(run.path()).state().classes;
  };
  EXPECT_TRUE(saved({}).empty());
  EXPECT_EQ(saved({"bird", "cat"}), (std::vector<std::string>{"bird", "cat"}));
}

TEST(Checkpoint, NewestAndBestAreKept) {
  const TempFolder run;
  const std::vector<double> losses = {3.0, 1.0, 2.0, 2.5, 1.5, 1.2};
  for (size_t i = 0; i < losses.size(); ++i) save(run.path(), static_cast<int64_t>(i) + 1, losses[i], 2);
  EXPECT_EQ(steps(run.path()), (std::vector<int64_t>{2, 5, 6}));
  save(run.path(), 7, 0.5, 2);  // the new best lets the old one go
  EXPECT_EQ(steps(run.path()), (std::vector<int64_t>{6, 7}));
  save(run.path(), 8, {}, 1);
  EXPECT_EQ(steps(run.path()), (std::vector<int64_t>{7, 8}));
}

TEST(Checkpoint, WithoutLossesTheNewestAreKept) {
  const TempFolder run;
  for (const int64_t step : {1, 2, 10, 9999}) save(run.path(), step, {}, 3);
  EXPECT_EQ(steps(run.path()), (std::vector<int64_t>{2, 10, 9999}));
}

TEST(Checkpoint, SameStepIsReplaced) {
  const TempFolder run;
  save(run.path(), 3, 2.0);
  save(run.path(), 3, 1.0);
  EXPECT_EQ(find_checkpoint(run.path()).state().validation_loss, 1.0);
  EXPECT_EQ(steps(run.path()).size(), 1u);
}

/// Damage to one file of step 2: the message names that file, and the run's step 1.
void expect_refused(const TempFolder& run, const std::string& file, const std::string& what) {
  for (const std::string& path : {run.path(), folder_of(run, 2), folder_of(run, 2) + "/"}) {
    const std::string error = error_of([&] { find_checkpoint(path); });
    EXPECT_NE(error.find(file), std::string::npos) << what << ": " << error;
    EXPECT_NE(error.find("step-00000001"), std::string::npos) << path << " " << what << ": " << error;
  }
  EXPECT_EQ(find_checkpoint(folder_of(run, 1)).state().step, 1);
}

TEST(Checkpoint, DamageIsFoundAndTheEarlierOneNamed) {
  const TempFolder run;
  save(run.path(), 1);
  save(run.path(), 2, 0.5);
  const RandomKey key(3, 0, kTestSite);
  uint64_t draw = 0;
  for (std::string file : {kFiles[0], kFiles[1], kFiles[2], std::string("manifest.json")}) {
    const std::string path = folder_of(run, 2) + "/" + file, whole = slurp(path);
    for (int i = 0; i < 12; ++i) {
      const size_t at = below(key.word(draw++), static_cast<uint32_t>(whole.size()));
      spill(path, whole.substr(0, at));
      expect_refused(run, file, fmt::format("{} cut at {}", file, at));
      std::string flipped = whole;
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << (i % 8)));
      spill(path, flipped);
      expect_refused(run, file, fmt::format("{} flipped at {}", file, at));
    }
    spill(path, whole + "x");
    expect_refused(run, file, "longer");
    fs::remove(path);
    expect_refused(run, file, "missing");
    spill(path, whole);
    EXPECT_EQ(find_checkpoint(run.path()).state().step, 2);
  }
}

// A number changed by hand: still JSON, but not what was written.
TEST(Checkpoint, AlteredManifest) {
  const TempFolder run;
  save(run.path(), 1);
  save(run.path(), 2);
  const std::string path = folder_of(run, 2) + "/manifest.json", whole = slurp(path);
  const std::vector<std::pair<std::string, std::string>> changes = {
      {"\"step\": 2", "\"step\": 3"}, {"\"format\": 1", "\"format\": 2"}, {"\"bytes\": ", "\"bytes\": 1"}};
  for (const auto& [from, to] : changes) {
    std::string text = whole;
    ASSERT_NE(text.find(from), std::string::npos);
    text.replace(text.find(from), from.size(), to);
    spill(path, text);
    expect_refused(run, "manifest.json", to);
  }
  for (const char* text : {"", "{}", "[]", "null", "{\"xxh64\": 5}"}) {
    spill(path, text);
    expect_refused(run, "manifest.json", text);
  }
}

TEST(Checkpoint, AllDamaged) {
  const TempFolder run;
  save(run.path(), 1);
  save(run.path(), 2);
  for (const int64_t step : {1, 2}) spill(folder_of(run, step) + "/model.safetensors", "no");
  const std::string error = error_of([&] { find_checkpoint(run.path()); });
  EXPECT_NE(error.find("step-00000002"), std::string::npos) << error;
  EXPECT_EQ(error.find("step-00000001"), std::string::npos) << error;
}

TEST(Checkpoint, PlacesWithoutOne) {
  const TempFolder run;
  EXPECT_NE(error_of([&] { find_checkpoint(run.file("absent")); }).find("absent"), std::string::npos);
  EXPECT_NE(error_of([&] { find_checkpoint(run.path()); }).find("manifest.json"), std::string::npos);
  spill(run.file("file"), "x");
  EXPECT_NE(error_of([&] { find_checkpoint(run.file("file")); }).find("is a file"), std::string::npos);
}

// What a killed process leaves has another name: never listed, never loaded, gone at the next save.
TEST(Checkpoint, LeftoversAreIgnoredAndRemoved) {
  const TempFolder run;
  save(run.path(), 1);
  const std::vector<std::string> leftovers = {folder_of(run, 2) + ".partial", folder_of(run, 0) + ".removed"};
  for (const std::string& folder : leftovers) {
    fs::create_directory(folder);
    spill(folder + "/model.safetensors", "half");
  }
  fs::copy(folder_of(run, 1) + "/manifest.json", leftovers[0] + "/manifest.json");
  EXPECT_EQ(steps(run.path()), std::vector<int64_t>{1});
  EXPECT_EQ(find_checkpoint(run.path()).state().step, 1);
  save(run.path(), 2);
  for (const std::string& folder : leftovers) EXPECT_FALSE(fs::exists(folder)) << folder;
  EXPECT_EQ(steps(run.path()), (std::vector<int64_t>{1, 2}));
}

TEST(Checkpoint, DamagedOnesAreLeftAloneByRetention) {
  const TempFolder run;
  save(run.path(), 1);
  spill(folder_of(run, 1) + "/manifest.json", "{");
  for (const int64_t step : {2, 3, 4}) save(run.path(), step, {}, 1);
  EXPECT_TRUE(fs::exists(folder_of(run, 1)));  // somebody may want to look at it
  EXPECT_FALSE(fs::exists(folder_of(run, 3)));
}

TEST(Checkpoint, FreeSpaceIsCheckedFirst) {
  const TempFolder run;
  const std::string error = error_of([&] { require_free_space(run.path(), uint64_t{1} << 60); });
  EXPECT_NE(error.find(run.path()), std::string::npos) << error;
  EXPECT_NE(error.find("free"), std::string::npos) << error;
  EXPECT_EQ(error_of([&] { require_free_space(run.path(), 1); }), "");
}

}  // namespace
}  // namespace siamese
