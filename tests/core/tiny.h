// What the tests of models and training share: tiny models with random weights, ids, folders that vanish, quiet runs.
#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <torch/csrc/autograd/autograd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "data/source.h"
#include "models/language_model.h"
#include "ops/random.h"
#include "train/optimizer.h"
#include "train/trainer.h"
#include "util/error.h"
#include "util/philox.h"

namespace siamese {

/// Tiny models gain nothing from threads, and on busy cores two of them spend up to sixty times the work waiting for
/// each other. Holds for the whole program; a test about threads sets their number itself.
inline const int kThreads = [] {
  at::set_num_threads(1);
  return 1;
}();

/// Two blocks of width 8. mix_ln gets one block of each kind.
inline ModelConfig tiny_config(const std::string& scheme = "siamese_hybrid") {
  ModelConfig c;
  c.scheme = scheme;
  c.d_model = 8;
  c.n_layers = 2;
  c.n_heads = c.n_kv_heads = 2;
  c.mlp_hidden_size = 16;
  c.vocab_size = 11;
  c.mix_fraction = 0.5;
  if (scheme.starts_with("hc_")) c.streams = 2;
  if (scheme == "mhc") c.streams = 4;
  return c;
}

/// The same with all four kinds of dropout.
inline ModelConfig dropout_config(const std::string& scheme = "siamese_hybrid") {
  ModelConfig c = tiny_config(scheme);
  c.embedding_dropout = c.residual_dropout = c.attention_dropout = 0.2;
  c.drop_path = 0.5;
  return c;
}

/// The usual start plus noise on everything that starts constant: at gain 1 and bias 0 many mistakes cancel.
inline void fill_randomly(Params& params, int64_t seed = 1, double noise = 0.2) {
  params.initialise(seed);
  int64_t number = 0;
  const at::NoGradGuard no_grad;
  for (const Parameter& p : params.all()) {
    if (p.init.kind == InitSpec::normal) continue;
    at::Tensor add = at::empty(p.value.sizes(), at::kDouble);
    truncated_normal_(add, noise, 3.0, {seed, number++, kTestSite, 0});
    p.value.add_(add.to(p.value.options()));
  }
}

inline std::unique_ptr<LanguageModel> tiny_model(const ModelConfig& config, at::ScalarType dtype = at::kDouble,
                                                 bool recompute_blocks = false, int64_t seed = 1) {
  ModelOptions options;
  options.dtype = options.stream_dtype = dtype;
  if (recompute_blocks) options.recompute = Recompute::block;
  auto model = std::make_unique<LanguageModel>(config, options);
  fill_randomly(model->params(), seed);
  return model;
}

inline void copy_weights(const Params& from, Params& to) {
  const at::NoGradGuard no_grad;
  for (const Parameter& p : to.all()) at::Tensor(p.value).copy_(from.at(p.name).value);
}

/// [rows, length] ids below `vocab`, the same on every run.
inline at::Tensor random_ids(int64_t rows, int64_t length, int64_t vocab, int64_t number = 0) {
  const at::Tensor u = uniform({rows, length}, at::kCPU, {7, number, kTestSite, 0});
  return (u * static_cast<double>(vocab)).to(at::kLong);
}

/// max|a-b| / max|b|, in fp64.
inline double relative_error(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.detach().to(at::kDouble), y = b.detach().to(at::kDouble);
  return (x - y).abs().max().item<double>() / (y.abs().max().item<double>() + 1e-30);
}

/// Gradients of `loss` by parameter, zeros where there is none; the model's own are left empty.
inline std::vector<at::Tensor> gradients(const at::Tensor& loss, const Params& params) {
  torch::autograd::variable_list leaves;
  for (const Parameter& p : params.all()) leaves.push_back(p.value);
  auto grads = torch::autograd::grad({loss}, leaves, {}, std::nullopt, false, /*allow_unused=*/true);
  for (size_t i = 0; i < grads.size(); ++i)
    if (!grads[i].defined()) grads[i] = at::zeros_like(leaves[i]);
  return grads;
}

/// A few AdamW steps on samples of `source` whose windows have `length` + 1 ids.
inline void train_briefly(LanguageModel& model, const Source& source, int64_t length, int64_t steps, double lr = 1e-2,
                          int64_t rows = 8) {
  TrainConfig train;
  Optimizer optimizer(model.params(), train);
  at::Tensor ids = at::empty({rows, length + 1}, at::kLong);
  for (int64_t s = 0; s < steps; ++s) {
    for (int64_t r = 0; r < rows; ++r)
      source.sample(s * rows + r,
                    {ids.mutable_data_ptr<int64_t>() + r * (length + 1), static_cast<size_t>(length + 1)});
    torch::autograd::backward({model.loss(ids, {}).total});
    optimizer.collect();
    optimizer.clip();
    optimizer.update(lr, s + 1);
  }
}

/// A folder that is gone after the test.
class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "siamese_core_XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp");
    path_ = pattern;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

inline std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

inline void spill(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
}

/// What the Error says, or "" when nothing is thrown. Anything else that is thrown fails the test.
template <class Call>
std::string error_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "not an Error: " << error.what();
  }
  return "";
}

/// Keeps a run's chatter out of the test's output; also when it throws.
class Quiet {
 public:
  Quiet() {
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
  }
  ~Quiet() {
    testing::internal::GetCapturedStdout();
    testing::internal::GetCapturedStderr();
  }
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;
};

inline TrainResult quiet_train(const TrainRequest& request) {
  const Quiet quiet;
  return train(request);
}

/// A recipe that trains in a fraction of a second.
inline Recipe pico_recipe(const std::vector<std::string>& overrides = {}) {
  constexpr const char* kYaml = R"(
name: pico
model: {d_model: 16, n_layers: 2, n_heads: 2, mlp_hidden_size: 32}
data: {source: sentences}
train: {steps: 12, batch_size: 4, sequence_length: 24, lr: 0.01, warmup_steps: 2}
eval: {every: 4, batches: 2, problems: 9}
checkpoint: {every: 5, keep: 9}
)";
  return parse_recipe(kYaml, "pico", overrides);
}

}  // namespace siamese
