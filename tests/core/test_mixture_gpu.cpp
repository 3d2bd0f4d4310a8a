// A language model with mixtures on a GPU: the experts' kernels against plain operators, both in bf16.
#include <memory>

#include "gpu.h"
#include "ops/expert_ops.h"
#include "ops/gpu_tools.h"
#include "tiny.h"
#include "train/models.h"

namespace siamese {
namespace {

constexpr int64_t kExperts = 8;  // the last of them has nothing to do

/// The two experts each token takes, [2, tokens], after `decide`.
at::Tensor decided(const at::Tensor& ids) {
  const at::Tensor first = ids.remainder(kExperts - 1), step = ids.div(kExperts - 1, "floor").remainder(kExperts - 2);
  return at::stack({first, (first + 1 + step).remainder(kExperts - 1)});
}

/// Lets a token's id say which experts it takes, so clearly that no rounding changes the choice: a token that goes
/// elsewhere would change gradients by far more than bf16 does.
void decide(const Params& params) {
  const at::NoGradGuard no_grad;
  at::Tensor embedding = params.at("transformer.wte.weight").value;
  const at::Tensor liked = decided(at::arange(embedding.size(0)));
  const int64_t d = embedding.size(1);
  embedding.add_((8 * at::one_hot(liked[0], d) + 6 * at::one_hot(liked[1], d)).to(embedding.options()));
  for (const Parameter& p : params.all())
    if (p.name.ends_with(".moe.router.weight"))
      at::Tensor(p.value).mul_(0.1).add_(at::eye(kExperts, d).to(p.value.options()), 0.4);
}

struct Pass {
  bool served = false;  // by the experts' kernels
  double loss = 0;
  at::Tensor loads, dropped;      // [mixtures, experts], [mixtures]
  std::vector<at::Tensor> grads;  // of all parameters
};
Pass pass(Recipe recipe, bool fused, at::Device device, const at::Tensor& ids) {
  recipe.model.fused = fused;
  const std::unique_ptr<LanguageModel> model = make_lm(recipe, device);
  model->params().initialise(1);
  decide(model->params());
  Forward forward;
  forward.training = true;
  const LmLoss loss = model->loss(ids.to(device), forward);
  torch::autograd::backward({loss.total});
  const at::Tensor w1 = model->params().at("transformer.blocks.0.moe.w1").value, loads = loss.loads.cpu();
  Pass result{fused && expert_kernels_serve(at::empty({1, w1.size(2)}, w1.options()), w1),
              loss.total.item<double>(),
              loads.slice(1, 0, kExperts).to(at::kLong),
              loads.select(1, kExperts),
              {}};
  for (const Parameter& p : model->params().all()) {
    const at::Tensor g = p.value.grad();
    result.grads.push_back((g.defined() ? g : at::zeros_like(p.value)).to(at::kCPU, at::kDouble));
  }
  return result;
}

TEST_F(Gpu, MixturesTrainInBf16) {
  if (const std::string why = without_expert_kernels(); !why.empty()) GTEST_SKIP() << why;
  const at::Tensor ids = random_ids(8, 97, 256);
  const at::Tensor sent = at::bincount(decided(ids.slice(1, 0, 96)).reshape({-1}), {}, kExperts);
  using Keys = std::vector<std::string>;
  for (const Keys& how :
       {Keys{"model.scheme=siamese_hybrid"}, Keys{"model.moe.balance=bias", "model.moe.score=sigmoid"},
        Keys{"train.recompute=block", "model.moe.shared_experts=1"},
        Keys{"model.moe.capacity_factor=1.0", "model.scheme=pre"},
        Keys{"model.moe.renormalize=true", "model.scheme=siamese"}}) {
    Keys keys = {"model.d_model=64",         "model.vocab_size=256",
                 "model.weight_tying=false", fmt::format("model.moe.experts={}", kExperts),
                 "train.precision=bfloat16", "model.moe.expert_hidden_size=64"};
    keys.insert(keys.end(), how.begin(), how.end());
    const Recipe recipe = pico_recipe(keys);
    const Pass got = pass(recipe, true, gpu_, ids), want = pass(recipe, false, gpu_, ids);
    const std::string& what = how.front();
    EXPECT_TRUE(got.served) << what;
    EXPECT_NEAR(got.loss, want.loss, 3e-3) << what;
    for (const Pass* p : {&got, &want}) EXPECT_TRUE(at::equal(p->loads, sent.expand({2, -1}))) << what << p->loads;
    EXPECT_TRUE(at::equal(got.dropped, want.dropped)) << what << got.dropped << want.dropped;
    EXPECT_EQ(got.dropped.min().item<double>() > 0, recipe.model.moe.capacity_factor > 0) << what;
    const std::unique_ptr<LanguageModel> shape = make_lm(recipe, at::kMeta);
    for (size_t i = 0; i < want.grads.size(); ++i) {
      const std::string& name = shape->params().all()[i].name;
      const at::Tensor &a = got.grads[i], &b = want.grads[i];
      EXPECT_LE((a - b).norm().item<double>(), 6e-2 * b.norm().item<double>() + 1e-6) << what << " " << name;
      if (!name.ends_with(".moe.w1") && !name.ends_with(".moe.w2")) continue;
      EXPECT_GT(a.slice(0, 0, kExperts - 1).abs().amax({1, 2}).min().item<double>(), 0) << what << " " << name;
      EXPECT_EQ(a[kExperts - 1].abs().max().item<double>(), 0) << what << " " << name;
    }
  }
}

}  // namespace
}  // namespace siamese
