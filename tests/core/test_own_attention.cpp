// Our own attention: gradients on the CPU; on the GPU against the CPU's in fp64, over lengths that fill no tile, shared
// key heads, another library's sums, and rotary positions turned back.
#include "ops/own_attention.h"

#include "gpu.h"
#include "gradcheck.h"
#include "ops/attention.h"
#include "ops/attention_library.h"
#include "ops/gpu_tools.h"
#include "ops/qkv_rope.h"
#include "ops/rope.h"

namespace siamese {
namespace {

TEST(OwnAttention, GradientsByFiniteDifferences) {
  for (const bool causal : {true, false})
    for (const int64_t kv_heads : {1, 2, 4}) {
      const at::Tensor qkv = random_normal({2, 5, 4 + 2 * kv_heads, 6}, 1).set_requires_grad(true);
      expect_gradients([&] { return std::get<0>(own_attention(qkv, 4, kv_heads, causal)).sin().sum(); },
                       {{"qkv", qkv}});
    }
}

struct Case {
  int64_t batch, length, heads, kv_heads;
};
const Case kCases[] = {
    {1, 1, 2, 1},   {1, 1, 2, 2},   {2, 64, 3, 3},   {1, 128, 1, 1},  {3, 130, 2, 2},
    {2, 200, 4, 2}, {1, 777, 8, 2}, {2, 1024, 2, 1}, {7, 197, 3, 3},  {2, 256, 6, 6},
    {3, 65, 2, 1},  {2, 700, 3, 3}, {1, 2300, 2, 2}, {4, 1100, 16, 4}};  // the last: several items a block

struct Inputs {
  at::Tensor qkv, g, cos, sin;  // on the CPU, in fp64, what bf16 can say
};
Inputs make_inputs(const Case& c) {
  auto rounded = [](const at::Tensor& t) { return t.to(at::kBFloat16).to(at::kDouble); };
  const at::Tensor angles = random_normal({c.length, 32}, 3);
  return {rounded(random_normal({c.batch, c.length, c.heads + 2 * c.kv_heads, 64}, 1)),
          rounded(random_normal({c.batch, c.length, c.heads, 64}, 2)), angles.cos(), angles.sin()};
}

/// In the norm: single elements of a softmax's gradient may cancel.
void expect_close(const at::Tensor& got, const at::Tensor& want, const std::string& what) {
  const at::Tensor a = got.to(at::kCPU, at::kDouble);
  EXPECT_LE((a - want).norm().item<double>(), 6e-3 * want.norm().item<double>() + 1e-3) << what;
  EXPECT_LE((a - want).abs().max().item<double>(), 0.05 * want.abs().max().item<double>() + 1e-3) << what;
}

class GpuAttention : public Gpu {
 protected:
  void compare(const Case& c, bool causal);
  void SetUp() override {
    Gpu::SetUp();
    if (!IsSkipped() && !own_attention_fits(64, gpu_)) GTEST_SKIP() << "no kernels for this GPU";
  }
};

void GpuAttention::compare(const Case& c, bool causal) {
  const std::string what = c10::str(c.batch, " x ", c.length, " tokens, ", c.heads, " heads, ", c.kv_heads, " of keys",
                                    causal ? ", causal" : "");
  const Inputs in = make_inputs(c);
  const at::Tensor qkv = in.qkv.to(gpu_, at::kBFloat16), g = in.g.to(gpu_, at::kBFloat16);
  const auto [want, want_sums] = own_attention(in.qkv, c.heads, c.kv_heads, causal);
  const auto [out, sums] = own_attention(qkv, c.heads, c.kv_heads, causal);
  expect_close(out, want, what + ": out");
  expect_close(sums.slice(2, 0, c.length), want_sums.slice(2, 0, c.length), what + ": sums");
  const at::Tensor cos = in.cos.to(gpu_, at::kFloat), sin = in.sin.to(gpu_, at::kFloat);
  const at::Tensor natural = (sums.slice(2, 0, c.length) / M_LOG2E).contiguous();
  for (const bool turned : {false, true}) {
    auto angle = [&](const at::Tensor& t) { return turned ? t : at::Tensor(); };
    const at::Tensor truth = own_attention_backward(in.g, in.qkv, want, want_sums, false, angle(in.cos), angle(in.sin),
                                                    c.heads, c.kv_heads, causal);
    auto backward = [&](const at::Tensor& s, bool base_e) {
      return own_attention_backward(g, qkv, out, s, base_e, angle(cos), angle(sin), c.heads, c.kv_heads, causal);
    };
    const at::Tensor got = backward(sums, false);
    expect_close(got, truth, what + (turned ? ": gradient, turned" : ": gradient"));
    expect_close(backward(natural, true), truth, what + ": gradient from natural logarithms");
    EXPECT_TRUE(at::equal(got, backward(sums, false))) << what << " twice";
  }
}

TEST_F(GpuAttention, IsTheCpus) {
  for (const bool causal : {true, false})
    for (const Case& c : kCases)
      if (!under_sanitizer() || c.batch * c.heads * c.length * c.length < 4'000'000) compare(c, causal);
}

/// More heads than are worked on at a time, so that memory for sums is used again: whoever else is at work, a sample's
/// gradient is the same.
TEST_F(GpuAttention, ASamplesGradientIsItsOwn) {
  for (const auto& [batch, length] : {std::pair(10, 1000), std::pair(5, 2100)}) {
    if (under_sanitizer() && length > 1000) continue;
    constexpr int64_t kHeads = 16;
    auto random = [&](int64_t count, int64_t seed) {
      return random_normal({batch, length, count, 64}, seed).to(gpu_, at::kBFloat16);
    };
    const at::Tensor qkv = random(3 * kHeads, 1), g = random(kHeads, 2);
    const at::Tensor angles = random_normal({length, 32}, 3).to(gpu_, at::kFloat), cos = angles.cos(),
                     sin = angles.sin();
    const auto [out, sums] = own_attention(qkv, kHeads, kHeads);
    const at::Tensor all = own_attention_backward(g, qkv, out, sums, false, cos, sin, kHeads, kHeads);
    for (int64_t i = 0; i < batch; i += under_sanitizer() ? 4 : 1) {
      auto one = [&](const at::Tensor& t) { return t.narrow(0, i, 1).contiguous(); };
      const at::Tensor alone =
          own_attention_backward(one(g), one(qkv), one(out), one(sums), false, cos, sin, kHeads, kHeads);
      EXPECT_TRUE(at::equal(one(all), alone)) << "sample " << i << " of " << length << " tokens";
    }
  }
}

/// Rows too long for the CPU, whose blocks of keys fill no layer of a team (kernels/cuda/attention_share.cuh).
TEST_F(GpuAttention, LongRowsAreFlashAttentions) {
  constexpr int64_t kHeads = 16;
  for (const int64_t length : {1030, 3200, 4224, 8300}) {
    if (under_sanitizer() && length > 1030) continue;
    EXPECT_TRUE(gpu_tools()->attention_in_one_pass(1, length, kHeads, kHeads)) << length;
    const at::Tensor qkv = random_normal({1, length, 3 * kHeads, 64}, 1).to(gpu_, at::kBFloat16);
    const at::Tensor g = random_normal({1, length, kHeads, 64}, 2).to(gpu_, at::kBFloat16);
    const auto [out, sums] = own_attention(qkv, kHeads, kHeads);
    const at::Tensor got = own_attention_backward(g, qkv, out, sums, false, {}, {}, kHeads, kHeads);
    const Heads h = heads_of(qkv, kHeads, kHeads);
    const Heads want = flash_backward(g, h, flash_forward(h, {}, 0), {}, 0);
    expect_close(got, at::cat({want.q, want.k, want.v}, 2).to(at::kCPU, at::kDouble), c10::str(length, " tokens"));
  }
}

/// From the projection to the heads' output and back, whoever attends: rotary positions, norms, and what is turned
/// back.
TEST_F(GpuAttention, CoreFollowsPlainOperations) {
  constexpr int64_t kBatch = 2, kLength = 300, kHeads = 4, kKeys = 2, kAll = kHeads + 2 * kKeys;
  for (const bool deterministic : {false, true})
    for (const bool normed : {false, true}) {
      set_deterministic(deterministic);
      auto run = [&](at::Device device, at::ScalarType type, at::ScalarType angles) {
        auto rounded = [&](at::Tensor t) { return t.to(at::kBFloat16).to(device, type); };
        AttentionCore core;
        core.heads = kHeads, core.kv_heads = kKeys, core.head_dim = 64;
        const at::Tensor angle = random_normal({kLength, 32}, 3);
        core.cos = angle.cos().to(device, angles), core.sin = angle.sin().to(device, angles);
        torch::autograd::variable_list leaves{
            rounded(random_normal({kBatch, kLength, kAll * 64}, 1)).set_requires_grad(true)};
        for (int64_t i = 0; normed && i < 3; ++i) {
          leaves.push_back(rounded(1 + 0.3 * random_normal({64}, 10 + i)).set_requires_grad(true));
          core.norm[i] = {true, NormKind::rms, 1e-5, leaves.back(), {}};
        }
        const at::Tensor qkv = leaves[0] * 1;  // may be overwritten
        const at::Tensor out =
            device.is_cuda()
                ? attention_core(qkv, core)
                : std::get<0>(own_attention(qkv_rope_plain(qkv.view({kBatch, kLength, kAll, 64}), core), kHeads, kKeys))
                      .flatten(2);
        auto grads = torch::autograd::grad({out}, leaves, {rounded(random_normal({kBatch, kLength, kHeads * 64}, 2))});
        grads.insert(grads.begin(), out.detach());
        return grads;
      };
      const auto want = run(at::kCPU, at::kDouble, at::kDouble), got = run(gpu_, at::kBFloat16, at::kFloat);
      for (size_t i = 0; i < want.size(); ++i)
        expect_close(
            got[i], want[i],
            c10::str(deterministic ? "deterministic" : "not deterministic", normed ? ", normed" : "", ": ", i));
    }
  set_deterministic(false);
}

TEST(OwnAttention, TurningBackIsTheRotationsTranspose) {
  const Inputs in = make_inputs({1, 7, 2, 1});
  const auto [out, sums] = own_attention(in.qkv, 2, 1);
  const at::Tensor plain = own_attention_backward(in.g, in.qkv, out, sums, false, {}, {}, 2, 1),
                   turned = own_attention_backward(in.g, in.qkv, out, sums, false, in.cos, in.sin, 2, 1);
  // ⟨R x, g⟩ = ⟨x, Rᵀ g⟩ on q and k; v is left alone.
  const at::Tensor x = random_normal({1, 7, 3, 64}, 9);
  const double left = (rope_plain(x, in.cos, in.sin) * plain.narrow(2, 0, 3)).sum().item<double>();
  EXPECT_NEAR((x * turned.narrow(2, 0, 3)).sum().item<double>(), left, 1e-9 * (1 + std::abs(left)));
  EXPECT_TRUE(at::equal(plain.narrow(2, 3, 1), turned.narrow(2, 3, 1)));
}

}  // namespace
}  // namespace siamese
