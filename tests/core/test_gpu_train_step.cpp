// The whole training step on a GPU: as a CUDA graph and operation by operation, deterministic, masked, with every
// policy of recomputation, and when memory does not suffice.
#include <cmath>

#include "gpu_train_step.h"
#include "ops/attention_norms.h"
#include "ops/own_attention.h"
#include "train/documents.h"

namespace siamese {
namespace {

TEST_F(GpuTrainStep, GraphGivesThePlainStepsLosses) {
  for (const char* scheme : {"pre", "siamese_hybrid", "mhc"})
    for (const char* parts : {"train.micro_batch_size=8", "train.micro_batch_size=2"})
      for (const bool deterministic : {false, true}) {
        const std::vector<std::string> set = {fmt::format("model.scheme={}", scheme), parts, "train.steps=6",
                                              fmt::format("train.deterministic={}", deterministic)};
        auto on = set, off = set;
        on.push_back("train.graph=on"), off.push_back("train.graph=off");
        const auto a = trained(small_recipe(on)), b = trained(small_recipe(off));
        ASSERT_EQ(a.size(), 6U);
        ASSERT_EQ(b.size(), 6U);
        for (size_t i = 0; i < 6; ++i) {
          const std::string where = fmt::format("{} {} deterministic {} step {}", scheme, parts, deterministic, i + 1);
          if (deterministic) {
            EXPECT_EQ(a[i], b[i]) << where;
          } else {
            EXPECT_NEAR(a[i].first, b[i].first, 5e-3 * b[i].first) << where;
            EXPECT_NEAR(a[i].second, b[i].second, 5e-2 * b[i].second) << where;
          }
        }
      }
}

TEST_F(GpuTrainStep, GraphInFp32AndWithRecomputedBlocks) {
  for (const char* set : {"train.precision=float32", "train.recompute=block", "model.stream_dtype=float32"}) {
    const auto a = trained(small_recipe({set, "train.steps=6", "train.graph=on"})),
               b = trained(small_recipe({set, "train.steps=6", "train.graph=off"}));
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i].first, b[i].first, 5e-3 * b[i].first) << set;
  }
}

// Norms of q, k and v inside projection and attention, in a size that takes their kernels.
TEST_F(GpuTrainStep, GraphWithNormsInsideGivesThePlainStepsLosses) {
  if (!own_attention_fits(64, gpu_)) GTEST_SKIP() << "no kernels for this GPU";
  const bool before = norms_inside();
  std::vector<std::pair<double, double>> losses[3];
  int i = 0;
  for (const auto& [inside, graph] : {std::pair(true, "on"), std::pair(true, "off"), std::pair(false, "off")}) {
    set_norms_inside(inside);
    losses[i++] = trained(
        small_recipe({"model.scheme=siamese_hybrid", "model.d_model=128", "model.n_heads=2", "model.n_kv_heads=2",
                      "train.sequence_length=512", "train.batch_size=86", "train.micro_batch_size=86", "train.steps=5",
                      "train.deterministic=true", fmt::format("train.graph={}", graph)}));
  }
  set_norms_inside(before);
  EXPECT_EQ(losses[0], losses[1]);
  ASSERT_EQ(losses[1].size(), losses[2].size());
  for (size_t k = 0; k < losses[1].size(); ++k)
    EXPECT_NEAR(losses[1][k].first, losses[2][k].first, 5e-3 * losses[2][k].first) << "step " << k + 1;
}

// Evaluation and checkpoints between the replays must not disturb them.
TEST_F(GpuTrainStep, ResumesDigitForDigitWhenDeterministic) {
  for (const char* graph : {"on", "off"}) expect_resumes({fmt::format("train.graph={}", graph)});
}

TEST_F(GpuTrainStep, BadStepIsNamedUnderAGraphToo) {
  const TempFolder run;
  Recipe recipe = small_recipe({"train.graph=on", "train.clip=0", "train.warmup_steps=4", "train.steps=12"});
  recipe.train.lr = 1e30, recipe.train.warmup_from = 1e-33;  // two good steps, then a bad one, which is captured
  const std::string error = error_of([&] { quiet_train(request(recipe, run, gpu_)); });
  EXPECT_TRUE(error.starts_with(fmt::format("step {}:", steps_in(run).size() + 1))) << error;
  EXPECT_NE(error.find("first bad tensor: "), std::string::npos) << error;
}

TEST_F(GpuTrainStep, EveryPolicyGivesTheGradientsOfNone) {
  set_deterministic(true);
  for (const char* scheme : {"pre", "post", "sandwich", "resi_dual", "siamese", "siamese_hybrid", "hc_dynamic"}) {
    ModelConfig config = small_recipe({fmt::format("model.scheme={}", scheme), "model.vocab_size=256"}).model;
    const at::Tensor ids = random_ids(4, 97, 256).to(gpu_);
    std::vector<at::Tensor> wanted;
    double loss_wanted = 0;
    for (const Recompute policy : {Recompute::none, Recompute::norms, Recompute::feed_forward, Recompute::block}) {
      LanguageModel model(config, narrow_options(policy));
      fill_randomly(model.params());
      Forward forward;
      forward.training = true;
      const at::Tensor loss = model.loss(ids, forward).total;
      const std::vector<at::Tensor> got = gradients(loss, model.params());
      if (policy == Recompute::none) {
        wanted = got, loss_wanted = loss.item<double>();
        continue;
      }
      EXPECT_NEAR(loss.item<double>(), loss_wanted, 1e-5) << scheme << " policy " << static_cast<int>(policy);
      for (size_t i = 0; i < got.size(); ++i)
        EXPECT_LE((got[i] - wanted[i]).to(at::kFloat).norm().item<double>(),
                  1e-2 * wanted[i].to(at::kFloat).norm().item<double>() + 1e-6)
            << scheme << " policy " << static_cast<int>(policy) << " " << model.params().all()[i].name;
    }
  }
}

TEST_F(GpuTrainStep, EveryPolicyKeepsLessThanTheOneBefore) {
  ModelConfig config = small_recipe({"model.d_model=256", "model.n_heads=4", "model.mlp_hidden_size=1024",
                                     "model.n_layers=8", "model.vocab_size=256"})
                           .model;
  const at::Tensor ids = random_ids(16, 513, 256).to(gpu_);
  int64_t before = std::numeric_limits<int64_t>::max();
  for (const Recompute policy : {Recompute::none, Recompute::norms, Recompute::feed_forward, Recompute::block}) {
    LanguageModel model(config, narrow_options(policy));
    model.params().initialise(1);
    gpu_tools()->reset_peak();
    torch::autograd::backward({model.loss(ids, {}).total});
    EXPECT_LT(gpu_tools()->peak_bytes(), before) << "policy " << static_cast<int>(policy);
    before = gpu_tools()->peak_bytes();
  }
}

TEST_F(GpuTrainStep, MaskedByEndsEqualsMaskedByNumbers) {
  const ModelConfig config = small_recipe({"model.vocab_size=16"}).model;
  const at::Tensor ids = random_ids(5, 97, 16);
  double loss[3] = {};
  std::vector<at::Tensor> grads[2];
  for (const bool on_gpu : {false, true}) {
    ModelOptions options;
    if (on_gpu) options.device = gpu_, options.dtype = options.stream_dtype = at::kBFloat16;
    LanguageModel model(config, options);
    model.params().initialise(3);
    Forward forward;
    mask_documents(forward, ids.slice(1, 0, 96), 0, options.device);
    EXPECT_EQ(forward.document_ends.defined(), on_gpu);
    const at::Tensor total = model.loss(ids.to(options.device), forward).total;
    loss[on_gpu] = total.item<double>();
    for (const at::Tensor& g : gradients(total, model.params())) grads[on_gpu].push_back(g.to(at::kCPU, at::kFloat));
    if (on_gpu) loss[2] = model.loss(ids.to(gpu_), {}).total.item<double>();
  }
  EXPECT_NEAR(loss[1], loss[0], 1e-2);
  EXPECT_GT(std::abs(loss[2] - loss[0]), 2 * std::abs(loss[1] - loss[0]));  // without a mask it is another loss
  for (size_t i = 0; i < grads[0].size(); ++i)
    EXPECT_LE((grads[1][i] - grads[0][i]).norm().item<double>(), 6e-2 * grads[0][i].norm().item<double>() + 2e-3) << i;
}

TEST_F(GpuTrainStep, MaskedTrainingFollowsTheCpu) {
  const std::vector<std::string> set = {"data.document_masking=true", "train.steps=8", "train.micro_batch_size=4"};
  auto exact = set;
  exact.push_back("train.precision=float32");
  const auto a = trained(small_recipe(set)), b = trained(small_recipe(exact), at::kCPU);
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i].first, b[i].first, 1e-2 * b[i].first) << "step " << i + 1;
}

TEST_F(GpuTrainStep, Bf16CurveIsTheFp32Curve) {
  const auto a = trained(small_recipe({"train.steps=200", "train.graph=on"})),
             b = trained(small_recipe({"train.steps=200", "train.graph=off", "train.precision=float32"}));
  ASSERT_EQ(a.size(), 200U);
  ASSERT_EQ(b.size(), 200U);
  for (size_t first = 0; first < 200; first += 10) {  // means of ten: single batches are noisy
    double mean_a = 0, mean_b = 0;
    for (size_t i = first; i < first + 10; ++i) mean_a += a[i].first / 10, mean_b += b[i].first / 10;
    EXPECT_NEAR(mean_a, mean_b, 0.01 * mean_b) << "steps from " << first + 1;
  }
  EXPECT_LT(a.back().first, 0.7 * a.front().first);
}

TEST_F(GpuTrainStep, OutOfMemorySaysWhatUsesIt) {
  const TempFolder run;
  // The embedding alone has 256 GiB.
  const Recipe recipe = small_recipe({"model.vocab_size=16777216", "model.d_model=8192", "model.mlp_hidden_size=64",
                                      "model.n_layers=1", "model.n_heads=64"});
  const Quiet quiet;
  try {
    train(request(recipe, run, gpu_));
    ADD_FAILURE() << "there was enough memory";
  } catch (const OutOfMemory& e) {
    EXPECT_NE(std::string(e.what()).find("out of memory"), std::string::npos) << e.what();
    EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos) << e.what();
    EXPECT_NE(e.advice().find("  parameters             256."), std::string::npos) << e.advice();
  }
}

}  // namespace
}  // namespace siamese
