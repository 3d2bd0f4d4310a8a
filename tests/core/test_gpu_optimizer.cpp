// The fused AdamW of a GPU against the CPU's, step by step.
#include "gpu.h"
#include "small_params.h"

namespace siamese {
namespace {

// Sizes that end in the middle of a group, a warp, a chunk; one that is two chunks exactly.
const std::vector<std::pair<ParamKind, int64_t>> kTensors = {
    {ParamKind::matrix, 1},        {ParamKind::norm, 7},     {ParamKind::other, 64},      {ParamKind::matrix, 1027},
    {ParamKind::embedding, 32768}, {ParamKind::norm, 16385}, {ParamKind::matrix, 1000003}};

/// From the embedding over five blocks to the head, so that train.layer_decay has something to tell apart.
std::string name_of(int64_t i) {
  if (i == 0) return "patch_embed.p0";
  return i < 6 ? fmt::format("transformer.blocks.{}.p{}", i - 1, i) : fmt::format("p{}", i);
}

Params odd_params(at::ScalarType dtype, at::Device device) {
  Params params(dtype, device);
  const at::NoGradGuard no_grad;
  for (const auto& [kind, size] : kTensors) {
    const int64_t i = static_cast<int64_t>(params.all().size());
    const at::Tensor p = params.add(name_of(i), {size}, kind, kZero);
    at::Tensor(p).copy_(uniform({size}, at::kCPU, {1, i, kTestSite, 0}) - 0.5);
  }
  return params;
}

at::Tensor gradient_on(const at::Tensor& p, size_t i, int64_t step) {
  return gradient(at::empty(p.sizes(), p.scalar_type()), static_cast<int64_t>(i), step).to(p.device());
}

/// Gradients of one micro-batch; the parameter `without` has none.
void give_gradients(const Params& params, int64_t step, size_t without = 99) {
  for (size_t i = 0; i < params.all().size(); ++i) {
    const at::Tensor& p = params.all()[i].value;
    if (i != without) p.mutable_grad() = gradient_on(p, i, step);
  }
}

/// Clips the gradients as one would in fp64 and leaves them in fp32; returns their norm before. The CPU's own sum in
/// fp32 is off by 4e-5 for a million numbers, too much to compare with.
double clip_exactly(const Params& params, double clip) {
  double squares = 0;
  for (const Parameter& p : params.all())
    if (p.value.grad().defined()) squares += p.value.grad().to(at::kDouble).square().sum().item<double>();
  const double norm = std::sqrt(squares), scale = clip > 0 && norm > clip ? clip / (norm + 1e-6) : 1.0;
  for (const Parameter& p : params.all())
    if (p.value.grad().defined()) p.value.mutable_grad() = p.value.grad().to(at::kFloat) * scale;
  return norm;
}

/// What a step found, read back.
std::vector<double> step(Optimizer& optimizer, double lr, int64_t number, const at::Tensor& loss = {}) {
  const at::Tensor found = optimizer.step(loss, lr, number).cpu();
  return {found.const_data_ptr<double>(), found.const_data_ptr<double>() + kStepValues};
}

void expect_equal(const Params& a, const Params& b) {
  for (const Parameter& p : a.all()) EXPECT_TRUE(at::equal(p.value.cpu(), b.at(p.name).value.cpu())) << p.name;
}

void expect_close(const NamedTensors& got, const NamedTensors& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_LE(relative_error(got[i].second.cpu(), want[i].second), tolerance) << got[i].first;
}

struct Setting {
  at::ScalarType dtype;
  double clip, ema, layer_decay = 1;
};

TEST_F(Gpu, AdamWFollowsTheCpus) {
  for (const Setting& s : {Setting{at::kFloat, 0.0, 0.0},
                           {at::kFloat, 1.0, 0.9, 0.7},
                           {at::kBFloat16, 1.0, 0.0},
                           {at::kBFloat16, 1e9, 0.9}}) {
    TrainConfig t;
    t.clip = s.clip, t.ema = s.ema, t.weight_decay = 0.2, t.decay_norms = true;
    t.layer_decay = s.layer_decay;
    const Params cpu_params = odd_params(s.dtype, at::kCPU), gpu_params = odd_params(s.dtype, gpu_);
    Optimizer cpu(cpu_params, t), gpu(gpu_params, t);
    for (int64_t number = 1; number <= 20; ++number) {
      const double lr = 1e-2 / static_cast<double>(number);
      for (const Params* params : {&cpu_params, &gpu_params})
        give_gradients(*params, number, static_cast<size_t>(number % 9));
      const double norm = clip_exactly(cpu_params, s.clip);
      cpu.collect(), cpu.update(lr, number);
      gpu.collect();
      const std::vector<double> found = step(gpu, lr, number, at::scalar_tensor(2.5, gpu_));
      EXPECT_EQ(found[kStepLoss], 2.5);
      EXPECT_NEAR(found[kStepNorm], norm, 5e-7 * norm);
      EXPECT_EQ(found[kStepBad], 0);
    }
    expect_close(gpu.state(), cpu.state(), 2e-6);
    expect_close(gpu.average(), cpu.average(), 2e-6);
    if (s.dtype == at::kFloat) {
      expect_close(named(gpu_params), named(cpu_params), 2e-6);
    } else {
      for (const auto& [name, tensor] : gpu.state())
        if (name.starts_with("master.")) {
          EXPECT_TRUE(at::equal(gpu_params.at(name.substr(7)).value.detach(), tensor.to(at::kBFloat16))) << name;
        }
    }
  }
}

TEST_F(Gpu, AdamWRepeatsItselfWhereverTheTensorsLie) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    TrainConfig t;
    t.ema = 0.9;
    const Params plain = odd_params(dtype, gpu_), again = odd_params(dtype, gpu_), shifted = odd_params(dtype, gpu_);
    auto off_by = [](const at::Tensor& x, int64_t n) {
      return at::cat({at::zeros({n}, x.options()), x.detach()}).slice(0, n);
    };
    for (const Parameter& p : shifted.all()) p.value.set_data(off_by(p.value, 1));
    std::vector<NamedTensors> states;
    std::vector<double> norms;
    for (const Params* params : {&plain, &again, &shifted}) {
      Optimizer optimizer(*params, t);
      for (int64_t number = 1; number <= 3; ++number) {
        give_gradients(*params, number);
        if (params == &shifted)
          for (const Parameter& p : params->all()) p.value.mutable_grad() = off_by(p.value.grad(), 3);
        optimizer.collect();
        norms.push_back(step(optimizer, 1e-2, number)[kStepNorm]);
      }
      states.push_back(optimizer.state());
    }
    for (size_t run = 1; run < 3; ++run)
      for (size_t i = 0; i < states[0].size(); ++i)
        EXPECT_TRUE(at::equal(states[run][i].second, states[0][i].second)) << states[0][i].first << " of run " << run;
    for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(norms[i] == norms[i + 3] && norms[i] == norms[i + 6]);
    expect_equal(again, plain);
    expect_equal(shifted, plain);
  }
}

TEST_F(Gpu, AdamWStopsForGoodAtABadValue) {
  for (const bool bad_loss : {false, true}) {
    const Params params = odd_params(at::kBFloat16, gpu_);
    Optimizer optimizer(params, TrainConfig{});
    auto advance = [&](int64_t number, double loss, double add) {
      give_gradients(params, number);
      params.all().back().value.mutable_grad()[1000002].add_(add);
      optimizer.collect();
      return step(optimizer, 1e-2, number, at::scalar_tensor(loss, gpu_));
    };
    EXPECT_EQ(advance(1, 3.0, 0.0)[kStepBad], 0);
    std::vector<at::Tensor> before;
    for (const auto& [name, tensor] : optimizer.state()) before.push_back(tensor.clone());
    const std::vector<double> found = advance(2, bad_loss ? NAN : 3.0, bad_loss ? 0.0 : INFINITY);
    EXPECT_EQ(found[kStepBad], 2);
    EXPECT_EQ(std::isfinite(found[kStepLoss]), !bad_loss);
    EXPECT_EQ(std::isfinite(found[kStepNorm]), bad_loss);
    EXPECT_EQ(advance(3, 3.0, 0.0)[kStepBad], 2);
    for (size_t i = 0; i < before.size(); ++i)
      EXPECT_TRUE(at::equal(optimizer.state()[i].second, before[i])) << optimizer.state()[i].first;
  }
}

TEST_F(Gpu, AdamWAddsUpMicroBatchesInFp32) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const TrainConfig t = without_clip();
    const Params cpu_params = odd_params(dtype, at::kCPU), gpu_params = odd_params(dtype, gpu_);
    Optimizer cpu(cpu_params, t), gpu(gpu_params, t);
    for (int64_t number = 1; number <= 2; ++number) {
      for (int64_t part = 0; part < 3; ++part)
        for (const Params* params : {&cpu_params, &gpu_params}) {
          give_gradients(*params, 3 * number + part, static_cast<size_t>(part));  // one has no gradient at first
          (params == &cpu_params ? cpu : gpu).collect();
          for (const Parameter& p : params->all()) EXPECT_FALSE(p.value.grad().defined()) << p.name;
        }
      EXPECT_EQ(gpu.first_bad_gradient(), "");
      const double want = step(cpu, 1e-3, number)[kStepNorm];
      EXPECT_NEAR(step(gpu, 1e-3, number)[kStepNorm], want, 1e-4 * want);
    }
    expect_close(gpu.state(), cpu.state(), 2e-6);
  }
}

TEST_F(Gpu, AdamWWithoutGradientsOnlyDecays) {
  const Params params = odd_params(at::kFloat, gpu_);
  const at::Tensor before = params.at("p6").value.detach().clone();
  Optimizer optimizer(params, without_clip());
  optimizer.collect();
  EXPECT_EQ(step(optimizer, 0.1, 1)[kStepNorm], 0.0);
  EXPECT_LE(relative_error(params.at("p6").value, before * (1 - 0.1 * 0.2)), 1e-7);
}

TEST_F(Gpu, AdamWRefusesWhatItCannotUpdate) {
  Params params(at::kDouble, gpu_);
  params.add("w", {3}, ParamKind::matrix, kZero);
  EXPECT_ANY_THROW(Optimizer(params, TrainConfig{}));
}

}  // namespace
}  // namespace siamese
