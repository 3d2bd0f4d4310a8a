// The operators of the GPU's optimizer on the CPU, against the CPU's own optimizer.
#include "ops/adamw.h"

#include "small_params.h"
#include "train/gpu_adamw.h"

namespace siamese {
namespace {

/// Parameters and their state as the optimizer has them: master weights of bf16 in fp32.
std::vector<OptimizerSlot> slots_of(const Params& params, const TrainConfig& train) {
  std::vector<OptimizerSlot> slots;
  for (const Parameter& p : params.all()) {
    OptimizerSlot s;
    s.parameter = p, s.decays = p.kind == ParamKind::matrix, s.rate = 1;
    s.master = p.value.scalar_type() == at::kBFloat16 ? p.value.detach().to(at::kFloat) : p.value;
    s.m = at::zeros_like(s.master.detach()), s.v = at::zeros_like(s.m);
    if (train.ema > 0) s.average = s.master.detach().clone();
    slots.push_back(std::move(s));
  }
  return slots;
}

/// Two micro-batches in every second step.
void give(const Params& params, int64_t step, const std::function<void()>& collect) {
  for (int64_t part = 0; part < 1 + step % 2; ++part) {
    set_gradients(params, 2 * step + part);
    if (step % 3 == 0) params.all()[1].value.mutable_grad().reset();  // one without a gradient
    collect();
  }
}

TEST(AdamwOps, FollowTheCpusOptimizer) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    TrainConfig t;
    t.clip = 1.5, t.ema = 0.9, t.weight_decay = 0.2;
    Params ours = small_params(dtype), theirs = small_params(dtype);
    for (Params* params : {&ours, &theirs})  // three chunks, the last one short
      params->add("long", {2 * 16384 + 5}, ParamKind::matrix, kZero).detach().fill_(0.5);
    std::vector<OptimizerSlot> slots = slots_of(ours, t);
    const at::NoGradGuard no_grad;
    GpuAdamW adamw(slots, t);
    Optimizer cpu(theirs, t);
    for (int64_t step = 1; step <= 12; ++step) {
      const double lr = 1e-2 / static_cast<double>(step);
      give(ours, step, [&] { adamw.collect(slots); });
      give(theirs, step, [&] { cpu.collect(); });
      adamw.plan(lr, step);
      const at::Tensor loss = at::scalar_tensor(2.5, at::kDouble);
      const at::Tensor found = adamw.apply(slots, loss).clone(), want = cpu.step(loss, lr, step);
      EXPECT_TRUE(at::allclose(found, want, 1e-5, 0)) << found << want;
      for (OptimizerSlot& s : slots) s.gradient.reset();
      adamw.forget();
    }
    for (size_t i = 0; i < slots.size(); ++i) {
      const std::string& name = slots[i].parameter.name;
      EXPECT_LE(relative_error(slots[i].parameter.value, theirs.at(name).value), dtype == at::kFloat ? 1e-5 : 1e-2);
      EXPECT_LE(relative_error(slots[i].average, cpu.average()[i].second), 1e-5) << name;
    }
  }
}

TEST(AdamwOps, StopForGoodAtABadValue) {
  const Params params = small_params(at::kBFloat16);
  const TrainConfig t;
  std::vector<OptimizerSlot> slots = slots_of(params, t);
  const at::NoGradGuard no_grad;
  GpuAdamW adamw(slots, t);
  auto step = [&](int64_t number, double loss) {
    set_gradients(params, number);
    adamw.collect(slots);
    adamw.plan(1e-2, number);
    const double bad = adamw.apply(slots, at::scalar_tensor(loss, at::kDouble))[kStepBad].item<double>();
    for (OptimizerSlot& s : slots) s.gradient.reset();
    adamw.forget();
    return bad;
  };
  EXPECT_EQ(step(1, 3.0), 0);
  const at::Tensor before = slots[0].master.clone();
  EXPECT_EQ(step(2, NAN), 2);
  EXPECT_EQ(step(3, 3.0), 2);
  EXPECT_TRUE(at::equal(slots[0].master, before));
}

TEST(AdamwOps, RefuseTablesThatDoNotFit) {
  const auto bytes = [](int64_t n) { return at::zeros({n}, at::kByte); };
  const at::Tensor control = at::zeros({14}, at::kDouble), sums = at::zeros({4});
  EXPECT_THROW(adamw_plan({{}, {}, {}, {}, control}, 0.1, 0), c10::Error);
  EXPECT_THROW(adamw_plan({{}, {}, {}, {}, control.narrow(0, 0, 3)}, 0.1, 1), c10::Error);
  EXPECT_THROW(adamw_accumulate({bytes(7), bytes(0), bytes(0), sums, control}, sums, false), c10::Error);
  EXPECT_THROW(adamw_step({bytes(72), bytes(0), bytes(0), sums, control}, {}), c10::Error);
  EXPECT_NO_THROW(adamw_step({bytes(0), bytes(0), bytes(0), sums, control}, {}));
}

}  // namespace
}  // namespace siamese
