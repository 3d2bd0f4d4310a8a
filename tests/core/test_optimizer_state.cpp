// What the optimizer carries besides the weights: fp32 master weights under bf16, moments, averages, and their way to
// disk and back.
#include "small_params.h"
#include "train/swapped_weights.h"

namespace siamese {
namespace {

// 1e-4 is below half a step of bf16 at 1: without master weights nothing would ever move.
TEST(Optimizer, Bf16KeepsSmallUpdates) {
  Params params(at::kBFloat16, at::kCPU);
  const at::Tensor w = params.add("w", {8, 8}, ParamKind::matrix, {InitSpec::constant, 1.0});
  params.initialise(1);
  TrainConfig t = without_clip();
  t.weight_decay = 0;
  t.ema = 0.5;
  Optimizer optimizer(params, t);
  for (int64_t step = 1; step <= 100; ++step) {
    w.mutable_grad() = at::ones_like(w);
    optimizer.collect();
    optimizer.update(1e-4, step);
  }
  at::Tensor master;
  for (const auto& [name, tensor] : optimizer.state())
    if (name == "master.w") master = tensor;
  ASSERT_EQ(master.scalar_type(), at::kFloat);
  EXPECT_LE(relative_error(master, at::full({8, 8}, 0.99)), 1e-5);
  EXPECT_TRUE(at::equal(w.detach(), master.to(at::kBFloat16)));
  EXPECT_EQ(optimizer.average()[0].second.scalar_type(), at::kFloat);
  EXPECT_EQ(optimizer.bytes(), 3 * 64 * 4);  // m, v and the master weights
  EXPECT_EQ(optimizer.average_bytes(), 64 * 4);
}

class OptimizerState : public testing::TestWithParam<at::ScalarType> {};
INSTANTIATE_TEST_SUITE_P(Types, OptimizerState, testing::Values(at::kFloat, at::kBFloat16),
                         [](const auto& p) { return std::string(c10::toString(p.param)); });

TEST_P(OptimizerState, RoundTripContinuesBitForBit) {
  const TempFolder folder;
  TrainConfig t = without_clip();
  t.ema = 0.8;
  const Params a = small_params(GetParam()), b = small_params(GetParam());
  Optimizer first(a, t);
  auto advance = [](const Params& params, Optimizer& o, int64_t from, int64_t to) {
    for (int64_t step = from; step <= to; ++step) {
      set_gradients(params, step);
      o.collect();
      o.update(1e-2, step);
    }
  };
  advance(a, first, 1, 4);
  save_tensors(folder.file("w"), named(a));
  save_tensors(folder.file("o"), first.state());
  save_tensors(folder.file("a"), first.average());
  advance(a, first, 5, 8);

  Optimizer second(b, t);
  load_tensors(SafetensorsFile(folder.file("w")), named(b));
  load_tensors(SafetensorsFile(folder.file("o")), second.state());
  load_tensors(SafetensorsFile(folder.file("a")), second.average());
  advance(b, second, 5, 8);
  for (const Parameter& p : a.all()) EXPECT_TRUE(at::equal(p.value, b.at(p.name).value)) << p.name;
  for (size_t i = 0; i < first.state().size(); ++i)
    EXPECT_TRUE(at::equal(first.state()[i].second, second.state()[i].second)) << first.state()[i].first;
  for (size_t i = 0; i < first.average().size(); ++i)
    EXPECT_TRUE(at::equal(first.average()[i].second, second.average()[i].second));
}

TEST(Optimizer, AdoptsLoadedWeights) {
  const Params params = small_params(at::kBFloat16);
  TrainConfig t = without_clip();
  t.ema = 0.8;
  Optimizer optimizer(params, t);
  {
    const at::NoGradGuard no_grad;
    at::Tensor(params.at("w").value).fill_(4.0);
  }
  optimizer.adopt_weights();
  optimizer.update(0.0, 1);  // copies the master weights back
  EXPECT_TRUE((params.at("w").value == 4.0).all().item<bool>());
  EXPECT_TRUE((optimizer.average()[0].second == 4.0).all().item<bool>());
}

// Memory may give out half-way: what stands in for that is an average of a parameter that is not there.
TEST(SwappedWeights, ComeBackWhereSwappingFails) {
  Params params(at::kFloat, at::kCPU);
  const at::Tensor w = params.add("w", {2}, ParamKind::matrix, {InitSpec::constant, 1.0});
  params.initialise(1);
  const at::Tensor other = at::full({2}, 7.0);
  {
    const SwappedWeights swapped(params, {{"w", other}});
    EXPECT_TRUE(at::equal(w.detach(), other));
  }
  EXPECT_TRUE(at::equal(w.detach(), at::ones({2})));
  EXPECT_ANY_THROW(SwappedWeights(params, {{"w", other}, {"not there", other}}));
  EXPECT_TRUE(at::equal(w.detach(), at::ones({2})));
}

}  // namespace
}  // namespace siamese
