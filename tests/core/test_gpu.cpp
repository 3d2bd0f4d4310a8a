// What must hold on a GPU; skipped where there is none. `make test-gpu` runs these.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "gpu.h"
#include "models/generate.h"
#include "models/language_model.h"
#include "ops/random.h"
#include "train/optimizer.h"

namespace siamese {
namespace {

TEST_F(Gpu, RandomNumbersAreTheCpus) {
  for (const int64_t offset : {0, 3, 1001}) {
    const Draw draw{7, 11, site_at(kTestSite, 2), offset};
    EXPECT_TRUE(at::equal(uniform({1003}, at::kCPU, draw), uniform({1003}, gpu_, draw).cpu()));
    for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16}) {
      at::Tensor a = at::empty({50001}, at::TensorOptions().dtype(type)), b = a.to(gpu_);
      truncated_normal_(a, 0.3, 3.0, draw);
      truncated_normal_(b, 0.3, 3.0, draw);
      // The logarithm of the tails may differ in the last bit of fp64 before both are rounded to fp32.
      EXPECT_LE((a.to(at::kDouble) - b.cpu().to(at::kDouble)).abs().max().item<double>(),
                type == at::kBFloat16 ? 4e-3 : 6e-8);
      EXPECT_TRUE(at::equal(dropout(a, 0.3, draw), dropout(a.to(gpu_), 0.3, draw).cpu()));
    }
  }
}

ModelConfig tiny(const std::string& scheme) {
  ModelConfig c;
  c.scheme = scheme;
  c.d_model = 32, c.n_layers = 3, c.n_heads = 4, c.n_kv_heads = 2, c.mlp_hidden_size = 96, c.vocab_size = 50;
  c.streams = scheme == "mhc" ? 4 : 2;
  c.residual_dropout = 0.1;
  return c;
}

TEST_F(Gpu, EverySchemeGivesTheCpusLossAndGradients) {
  for (const SchemeInfo& info : scheme_table()) {
    const at::Tensor ids = at::arange(2 * 17).view({2, 17}).remainder(50);
    std::vector<at::Tensor> grads[2];
    double loss[2];
    int side = 0;
    for (const at::Device device : {at::Device(at::kCPU), gpu_}) {
      ModelOptions options;
      options.device = device;
      options.dtype = options.stream_dtype = at::kDouble;
      LanguageModel model(tiny(info.name), options);
      model.params().initialise(3);
      Forward forward;
      forward.training = true;
      const LmLoss l = model.loss(ids.to(device), forward, 1e-4);
      torch::autograd::backward({l.total});
      loss[side] = l.total.item<double>();
      for (const Parameter& p : model.params().all())
        grads[side].push_back(p.value.grad().defined() ? p.value.grad().cpu() : at::zeros_like(p.value).cpu());
      ++side;
    }
    EXPECT_NEAR(loss[0], loss[1], 1e-7) << info.name;
    for (size_t i = 0; i < grads[0].size(); ++i)
      EXPECT_LE((grads[0][i] - grads[1][i]).abs().max().item<double>(), 1e-6) << info.name << " parameter " << i;
  }
}

TEST_F(Gpu, Bf16TrainingLearnsAndGenerates) {
  ModelConfig config = tiny("siamese_hybrid");
  ModelOptions options;
  options.device = gpu_;
  options.dtype = options.stream_dtype = at::kBFloat16;
  LanguageModel model(config, options);
  model.params().initialise(3);
  TrainConfig train;
  Optimizer optimizer(model.params(), train);
  const at::Tensor ids = at::arange(4 * 17).view({4, 17}).remainder(50).to(gpu_);
  double first = 0, last = 0;
  for (int64_t step = 1; step <= 60; ++step) {
    Forward forward;
    forward.training = true;
    forward.step = step;
    const LmLoss l = model.loss(ids, forward);
    torch::autograd::backward({l.total});
    optimizer.collect();
    EXPECT_EQ(optimizer.step(l.ce, 3e-3, step)[kStepBad].item<double>(), 0);
    last = l.ce.item<double>();
    if (step == 1) first = last;
  }
  EXPECT_LT(last, 0.5 * first);
  SamplingOptions sampling;
  sampling.tokens = 20;
  sampling.temperature = 0;
  EXPECT_EQ(generate(model, {1, 2, 3}, sampling).size(), 20U);
}

}  // namespace
}  // namespace siamese
