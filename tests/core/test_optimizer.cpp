// AdamW against a reference in plain double arithmetic; decay groups, clipping, accumulation, averages.
#include "small_params.h"

namespace siamese {
namespace {

struct Reference {
  std::vector<double> p, m, v;

  explicit Reference(const at::Tensor& start) {
    const at::Tensor x = start.detach().to(at::kDouble).flatten();
    p.assign(x.const_data_ptr<double>(), x.const_data_ptr<double>() + x.numel());
    m.assign(p.size(), 0.0);
    v.assign(p.size(), 0.0);
  }
  void step(const at::Tensor& grad, double lr, int64_t t, double decay, const TrainConfig& c) {
    const at::Tensor g = grad.to(at::kDouble).flatten().contiguous();
    const double n = static_cast<double>(t);
    for (size_t i = 0; i < p.size(); ++i) {
      const double x = g.const_data_ptr<double>()[i];
      p[i] -= lr * decay * p[i];
      m[i] = c.beta1 * m[i] + (1 - c.beta1) * x;
      v[i] = c.beta2 * v[i] + (1 - c.beta2) * x * x;
      p[i] -= lr * m[i] / (1 - std::pow(c.beta1, n)) / (std::sqrt(v[i] / (1 - std::pow(c.beta2, n))) + c.eps);
    }
  }
  double error(const at::Tensor& value) const {
    const at::Tensor x = value.detach().to(at::kDouble).flatten();
    double worst = 0;
    for (size_t i = 0; i < p.size(); ++i)
      worst = std::max(worst, std::abs(x.const_data_ptr<double>()[i] - p[i]) / (std::abs(p[i]) + 1e-3));
    return worst;
  }
};

class OptimizerUpdate : public testing::TestWithParam<at::ScalarType> {};
INSTANTIATE_TEST_SUITE_P(Types, OptimizerUpdate, testing::Values(at::kFloat, at::kDouble),
                         [](const auto& p) { return std::string(c10::toString(p.param)); });

TEST_P(OptimizerUpdate, IsAdamW) {
  const Params params = small_params(GetParam());
  const TrainConfig t = without_clip();
  Optimizer optimizer(params, t);
  std::vector<Reference> references;
  for (const Parameter& p : params.all()) references.emplace_back(p.value);
  for (int64_t step = 1; step <= 10; ++step) {
    set_gradients(params, step);
    optimizer.collect();
    optimizer.clip();
    const double lr = 1e-2 / static_cast<double>(step);
    optimizer.update(lr, step);
    for (size_t i = 0; i < references.size(); ++i) {
      const Parameter& p = params.all()[i];
      const double decay = p.kind == ParamKind::matrix ? t.weight_decay : 0.0;
      references[i].step(gradient(p.value, static_cast<int64_t>(i), step), lr, step, decay, t);
      EXPECT_LE(references[i].error(p.value), GetParam() == at::kDouble ? 1e-12 : 2e-6) << p.name << " step " << step;
    }
  }
}

TEST(Optimizer, DecayGroups) {
  ModelConfig c = tiny_config("siamese_hybrid");
  c.bias = c.norm_bias = true;
  c.norm = "layer";
  c.weight_tying = false;
  const auto model = tiny_model(c, at::kFloat);
  TrainConfig t;
  auto decayed = [&](const std::string& name) {
    return Optimizer(model->params(), t).decays(model->params().at("transformer." + name));
  };
  for (const char* name : {"blocks.0.att_proj.weight", "blocks.1.attn_out.weight", "blocks.0.ff_proj.weight",
                           "blocks.1.ff_out.weight", "ff_out.weight"})
    EXPECT_TRUE(decayed(name)) << name;
  const Optimizer usual(model->params(), t);
  for (const Parameter& p : model->params().all())
    EXPECT_EQ(usual.decays(p), p.value.dim() == 2 && p.name != "transformer.wte.weight") << p.name;
  EXPECT_FALSE(decayed("blocks.0.c1"));
  t.decay_embeddings = true;
  EXPECT_TRUE(decayed("wte.weight"));
  EXPECT_FALSE(decayed("ln_f.weight"));
  t.decay_embeddings = false;
  t.decay_norms = true;
  EXPECT_FALSE(decayed("wte.weight"));
  EXPECT_TRUE(decayed("ln_f.weight"));
  EXPECT_TRUE(decayed("ln_f.bias"));
}

// Zero gradients leave decay as the only thing that moves a weight.
TEST(Optimizer, DecayIsDecoupled) {
  const Params params = small_params(at::kDouble);
  const at::Tensor w = params.at("w").value.detach().clone(), g = params.at("g").value.detach().clone();
  TrainConfig t = without_clip();
  Optimizer optimizer(params, t);
  optimizer.collect();  // no gradient at all: counts as zero
  EXPECT_EQ(optimizer.clip(), 0.0);
  optimizer.update(0.1, 1);
  EXPECT_LE(relative_error(params.at("w").value, w * (1 - 0.1 * 0.2)), 1e-15);
  EXPECT_TRUE(at::equal(params.at("g").value.detach(), g));
}

TEST(Optimizer, ClipScalesTheGlobalNorm) {
  Params params(at::kDouble, at::kCPU);
  const at::Tensor a = params.add("a", {2}, ParamKind::matrix, kZero), b = params.add("b", {1}, ParamKind::norm, kZero);
  params.initialise(1);
  auto moments = [&](double clip) {
    TrainConfig t = without_clip();
    t.clip = clip;
    Optimizer optimizer(params, t);
    a.mutable_grad() = at::tensor({2.0, 3.0}, at::kDouble);
    b.mutable_grad() = at::tensor({6.0}, at::kDouble);
    optimizer.collect();
    EXPECT_DOUBLE_EQ(optimizer.clip(), 7.0);  // before clipping
    optimizer.update(0.0, 1);
    return optimizer.state()[0].second.flatten()[0].item<double>() / (1 - t.beta1);  // the clipped first gradient
  };
  EXPECT_NEAR(moments(0), 2.0, 1e-12);
  EXPECT_NEAR(moments(7.5), 2.0, 1e-12);
  EXPECT_NEAR(moments(3.5), 1.0, 1e-6);
  EXPECT_NEAR(moments(0.7), 0.2, 1e-6);
}

TEST(Optimizer, BadGradientsAreNamedAndChangeNothing) {
  const Params params = small_params(at::kFloat);
  Optimizer optimizer(params, TrainConfig{});
  set_gradients(params, 1);
  EXPECT_EQ(optimizer.first_bad_gradient(), "");
  params.at("e").value.mutable_grad()[2][1].fill_(std::numeric_limits<double>::infinity());
  optimizer.collect();
  EXPECT_FALSE(std::isfinite(optimizer.clip()));
  EXPECT_EQ(optimizer.first_bad_gradient(), "e");
  optimizer.forget();
  EXPECT_EQ(optimizer.first_bad_gradient(), "");
  EXPECT_EQ(optimizer.clip(), 0.0);
}

TEST(Optimizer, CollectsAddUpAndClear) {
  const Params one = small_params(at::kFloat), three = small_params(at::kFloat);
  Optimizer a(one, without_clip()), b(three, without_clip());
  for (size_t i = 0; i < one.all().size(); ++i) {
    const at::Tensor& p = one.all()[i].value;
    const auto n = static_cast<int64_t>(i);
    p.mutable_grad() = gradient(p, n, 1) + gradient(p, n, 2) + gradient(p, n, 3);
  }
  a.collect();
  const at::Tensor kept = gradient(three.at("w").value, 0, 1), copy = kept.clone();
  for (int64_t part = 1; part <= 3; ++part) {
    set_gradients(three, part);
    if (part == 1) three.at("w").value.mutable_grad() = kept;
    b.collect();
    for (const Parameter& p : three.all()) EXPECT_FALSE(p.value.grad().defined()) << p.name;
  }
  EXPECT_TRUE(at::equal(kept, copy));  // a gradient somebody else holds is not added into
  EXPECT_NEAR(a.clip(), b.clip(), 1e-5);
  a.update(1e-2, 1);
  b.update(1e-2, 1);
  for (const Parameter& p : one.all()) EXPECT_LE(relative_error(three.at(p.name).value, p.value), 1e-6) << p.name;
}

TEST(Optimizer, AverageFollowsItsFormula) {
  const Params params = small_params(at::kDouble);
  TrainConfig t = without_clip();
  t.ema = 0.9;
  EXPECT_TRUE(Optimizer(params, without_clip()).average().empty());
  Optimizer optimizer(params, t);
  at::Tensor want = params.at("w").value.detach().clone();
  for (int64_t step = 1; step <= 5; ++step) {
    set_gradients(params, step);
    optimizer.collect();
    optimizer.update(1e-2, step);
    want = 0.9 * want + 0.1 * params.at("w").value.detach();
  }
  EXPECT_EQ(optimizer.average()[0].first, "w");
  EXPECT_LE(relative_error(optimizer.average()[0].second, want), 1e-14);
  EXPECT_GT(relative_error(optimizer.average()[0].second, params.at("w").value), 1e-4);
}

}  // namespace
}  // namespace siamese
