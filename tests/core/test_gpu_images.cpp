// Image models on a GPU: the fused path against the plain one, bf16 against fp32, the training step as a CUDA graph.
#include <nlohmann/json.hpp>

#include "gpu.h"
#include "image_models.h"
#include "train/trainer.h"

namespace siamese {
namespace {

class GpuImages : public Gpu {
 protected:
  /// Loss, then the gradients of all parameters, in fp64 on the CPU. Weights and inputs depend on names and places
  /// only.
  template <class Model>
  std::vector<at::Tensor> results(ModelConfig config, bool fused, at::ScalarType type, at::Device device) const {
    config.fused = fused;
    ModelOptions options;
    options.dtype = options.stream_dtype = type;
    options.device = device;
    Model model(config, options);
    randomise(model.params());
    const at::Tensor loss = image_loss(model);
    torch::autograd::backward({loss});
    std::vector<at::Tensor> all{loss.detach().to(at::kCPU, at::kDouble)};
    for (const Parameter& p : model.params().all())
      all.push_back((p.value.grad().defined() ? p.value.grad() : at::zeros_like(p.value)).to(at::kCPU, at::kDouble));
    return all;
  }

  template <class Model>
  void expect_near(const ModelConfig& c, at::ScalarType type, double bound) const {
    const std::vector<at::Tensor> want = results<Model>(c, false, at::kDouble, at::kCPU),
                                  got = results<Model>(c, true, type, gpu_);
    // Random weights make some gradients sums that nearly cancel: what fp32 costs on the CPU is the measure.
    const std::vector<at::Tensor> fp32 = results<Model>(c, true, at::kFloat, at::kCPU);
    double largest = 0;
    for (size_t i = 1; i < want.size(); ++i) largest = std::max(largest, want[i].abs().max().item<double>());
    for (size_t i = 0; i < want.size(); ++i) {
      const double scale = want[i].abs().max().item<double>() + (i == 0 ? 0 : 0.1 * largest);
      const double rounding = 8 * (fp32[i] - want[i]).abs().max().item<double>();
      EXPECT_LE((got[i] - want[i]).abs().max().item<double>(), bound * scale + rounding)
          << c.family << " " << c.scheme << " " << c10::toString(type) << ", result " << i;
    }
  }
};

ModelConfig wide_config(const std::string& scheme, const std::string& family) {
  ModelConfig c = image_config(scheme_config(scheme), family);
  c.d_model = 64, c.n_heads = 2, c.n_kv_heads = 2, c.mlp_hidden_size = 128;  // what the kernels take
  return c;
}

TEST_F(GpuImages, EverySchemeAgreesWithTheCpu) {
  for (const std::string& scheme : scheme_names()) {
    expect_near<DeiT>(wide_config(scheme, "deit"), at::kFloat, 2e-5);
    expect_near<DiT>(wide_config(scheme, "dit"), at::kFloat, 2e-5);
  }
}

TEST_F(GpuImages, NarrowTypesStayNear) {
  for (const char* scheme : {"pre", "siamese", "siamese_hybrid"}) {
    expect_near<DeiT>(wide_config(scheme, "deit"), at::kBFloat16, 0.15);
    expect_near<DiT>(wide_config(scheme, "dit"), at::kBFloat16, 0.15);
  }
}

/// Everything random is drawn before the step: a graph gives the losses of the plain step.
TEST_F(GpuImages, GraphGivesThePlainStepsLosses) {
  for (const char* family : {"deit", "dit"}) {
    std::vector<std::vector<double>> losses;
    for (const char* graph : {"on", "off"}) {
      std::vector<std::string> set = {std::string("model.family=") + family,
                                      std::string("train.graph=") + graph,
                                      "model.d_model=64",
                                      "model.n_layers=2",
                                      "model.n_heads=2",
                                      "model.image_size=16",
                                      "model.patch_size=4",
                                      "data.shapes=64",
                                      "train.batch_size=16",
                                      "train.micro_batch_size=8",
                                      "train.steps=12",
                                      "train.precision=bfloat16",
                                      "train.deterministic=true",
                                      "eval.every=0",
                                      "eval.batches=1",
                                      "checkpoint.every=0",
                                      "train.ema=0.9"};
      if (std::string(family) == "dit") set.push_back("diffusion.sample_steps=2");
      if (std::string(family) == "deit")
        set.insert(set.end(), {"model.drop_path=0.2", "augment.mixup=0.8", "augment.smoothing=0.1"});
      const TempFolder run;
      TrainRequest request;
      request.recipe = parse_recipe("", "test.yaml", set);
      request.out = run.path();
      request.device = gpu_;
      quiet_train(request);
      losses.emplace_back();
      std::istringstream in(slurp(run.file("metrics.jsonl")));
      for (std::string line; std::getline(in, line);) {
        const auto j = nlohmann::json::parse(line);
        if (j.contains("loss")) losses.back().push_back(j["loss"].get<double>());
      }
    }
    EXPECT_EQ(losses[0].size(), 12U);
    EXPECT_EQ(losses[0], losses[1]) << family;
  }
  set_deterministic(false);
}

}  // namespace
}  // namespace siamese
