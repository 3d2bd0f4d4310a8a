// The pass before attention as an operator: its gradients, its forms and its shapes. On a GPU: test_gpu_step.cpp,
// test_gpu_qkv_rope.cpp.
#include "gradcheck.h"
#include "ops/qkv_rope.h"

namespace siamese {
namespace {

struct Case {
  const char* name;
  int normed;  // how many of q, k, v
  NormKind kind = NormKind::rms;
  bool bias = false;
};
const Case kCases[] = {
    {"bare", 0}, {"qk", 2}, {"qkv", 3}, {"layer", 2, NormKind::layer}, {"bias", 3, NormKind::layer, true}};

constexpr int64_t kHeads = 4, kKvHeads = 2, kDim = 6, kLength = 5;

/// Every tensor that has a gradient is a leaf.
struct Inputs {
  Inputs(const Case& c, at::ScalarType type) {
    auto leaf = [&](at::IntArrayRef shape, int64_t number, double mean, double std) {
      return (random_normal(shape, number) * std + mean).to(type).set_requires_grad(true);
    };
    qkv = leaf({3, kLength, kHeads + 2 * kKvHeads, kDim}, 1, 0, 1);
    leaves.emplace_back("qkv", qkv);
    core.heads = kHeads, core.kv_heads = kKvHeads, core.head_dim = kDim;
    const at::Tensor angle = random_normal({kLength, kDim / 2}, 2).to(type == at::kDouble ? at::kDouble : at::kFloat);
    core.cos = angle.cos(), core.sin = angle.sin();
    for (int i = 0; i < c.normed; ++i) {
      core.norm[i] = {true, c.kind, 1e-5, leaf({kDim}, 3 + i, 1, 0.3), {}};
      if (c.bias) core.norm[i].bias = leaf({kDim}, 6 + i, 0, 0.3);
      for (const at::Tensor& t : {core.norm[i].gain, core.norm[i].bias})
        if (t.defined()) leaves.emplace_back("norm " + std::to_string(i), t);
    }
  }
  at::Tensor qkv;
  AttentionCore core;
  NamedLeaves leaves;
};

at::Tensor call(const at::Tensor& qkv, const AttentionCore& core) {
  using Signature = at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                               c10::List<std::optional<at::Tensor>>, int64_t, int64_t, int64_t, double);
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("siamese::qkv_rope", "").typed<Signature>();
  c10::List<std::optional<at::Tensor>> affine;
  for (const at::Tensor& t : qkv_affine(core)) affine.push_back(t.defined() ? std::optional(t) : std::nullopt);
  return op.call(qkv, core.cos, core.sin, affine, core.heads, core.kv_heads, qkv_flags(core), qkv_eps(core));
}

TEST(QkvRope, GradientsByFiniteDifferences) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    const Inputs in(c, at::kDouble);
    expect_gradients([&] { return call(in.qkv, in.core).sin().sum(); }, in.leaves);
  }
}

TEST(QkvRope, GradientsAreAutogradsOfThePlainPass) {
  for (const Case& c : kCases)
    for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16}) {
      SCOPED_TRACE(std::string(c.name) + " " + c10::toString(type));
      const Inputs in(c, type);
      torch::autograd::variable_list leaves;
      for (const auto& [name, leaf] : in.leaves) leaves.push_back(leaf);
      const at::Tensor a = call(in.qkv, in.core), b = qkv_rope_plain(in.qkv, in.core);
      EXPECT_TRUE(at::equal(a, b));
      const at::Tensor g = random_normal(a.sizes(), 20, type);
      const auto got = torch::autograd::grad({a}, leaves, {g}), want = torch::autograd::grad({b}, leaves, {g});
      const double tolerance = type == at::kDouble ? 1e-13 : type == at::kFloat ? 1e-5 : 3e-2;
      for (size_t i = 0; i < leaves.size(); ++i) {
        EXPECT_EQ(got[i].scalar_type(), type);
        EXPECT_LE((got[i] - want[i]).norm().item<double>(), tolerance * want[i].norm().item<double>())
            << in.leaves[i].first;
      }
    }
}

TEST(QkvRope, WritesInPlaceWhereNothingIsNormed) {
  const Inputs in(kCases[0], at::kFloat);
  const at::Tensor want = qkv_rope_plain(in.qkv, in.core).detach(), data = in.qkv.detach().clone();
  qkv_rope_out(data, data, in.core);
  EXPECT_TRUE(at::equal(data, want));
}

TEST(QkvRope, ShapesAreKnownWithoutNumbers) {
  Inputs in(kCases[3], at::kBFloat16);
  const auto meta = [](const at::Tensor& t) { return t.defined() ? t.detach().to(at::kMeta) : t; };
  AttentionCore core = in.core;
  core.cos = meta(core.cos), core.sin = meta(core.sin);
  for (Norm& n : core.norm) n.gain = meta(n.gain), n.bias = meta(n.bias);
  const at::Tensor qkv = meta(in.qkv), out = call(qkv.set_requires_grad(true), core);
  EXPECT_EQ(out.sizes(), in.qkv.sizes());
  EXPECT_TRUE(out.requires_grad());
  qkv_rope_out(meta(in.qkv), meta(in.qkv), core);
  const std::vector<at::Tensor> parts = out.detach().split_with_sizes({kHeads, kKvHeads, kKvHeads}, 2);
  const auto got = qkv_rope_backward(parts[0], parts[1], parts[2], meta(in.qkv), core),
             want = qkv_rope_backward_plain(in.qkv.detach().narrow(2, 0, kHeads), in.qkv.detach().narrow(2, 4, 2),
                                            in.qkv.detach().narrow(2, 6, 2), in.qkv.detach(), in.core);
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].sizes(), want[i].sizes()) << i;
    EXPECT_EQ(got[i].scalar_type(), want[i].scalar_type()) << i;
  }
}

}  // namespace
}  // namespace siamese
