// Two sub-layers and the end of a hyper-connected stack, by the operator and by plain LibTorch operations with
// autograd: what the operator's tests compare on the CPU (test_hyper.cpp) and on the GPU (test_gpu_hyper.cpp).
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <string>
#include <vector>

#include "leaves.h"
#include "ops/hyper_step.h"

namespace siamese {

struct HyperCase {
  HyperKind kind = HyperKind::fixed;
  int64_t n = 2, tokens = 1, d = 8;
  bool gains = true;
  bool shared = false;     // the streams begin as one tensor
  bool whole_loss = true;  // otherwise of the end alone, with updates that do not depend on what was read
  bool end_norm = true;

  std::string name() const {
    static const char* const kinds[] = {"sum", "fixed", "dynamic", "mhc"};
    return fmt::format("{}_{}_streams_{}x{}{}{}{}{}", kinds[static_cast<int64_t>(kind)], n, tokens, d,
                       gains ? "" : "_without_gains", shared ? "_shared" : "", whole_loss ? "" : "_end_alone",
                       end_norm ? "" : "_without_end_norm");
  }
};

inline Norm hyper_norm(const at::Tensor& gain) { return {true, NormKind::rms, 1e-3, gain, {}}; }

/// Every tensor of the three steps, as leaves in fp64 on the CPU.
struct HyperLeaves {
  explicit HyperLeaves(const HyperCase& c) : test(c) {
    const int64_t n = c.n, d = c.d, columns = hyper_columns(c.kind, n);
    h = leaf("h", {c.tokens, c.shared ? 1 : n, d}, 1.0);
    r[0] = leaf("r0", {c.tokens, d}, 1.0), r[1] = leaf("r1", {c.tokens, d}, 1.0);
    for (int k = 0; k < 3; ++k)
      if (c.gains && (k < 2 || c.end_norm)) gain[k] = leaf(fmt::format("gain{}", k), {d}, 0.3, 1.0);
    for (int k = 0; k < 2; ++k) {
      auto map = [&](const char* part, at::IntArrayRef shape, double std, double mean = 0.0) {
        maps[k].push_back(leaf(fmt::format("{}{}", part, k), shape, std, mean));
      };
      if (c.gains && columns > 0) map_gain[k] = leaf(fmt::format("map_gain{}", k), {rows() * d}, 0.3, 1.0);
      const double std = 1.0 / std::sqrt(static_cast<double>(rows() * d));
      if (c.kind == HyperKind::fixed || c.kind == HyperKind::dynamic)
        map("alpha_m", {n}, 0.5, 0.3), map("alpha_r", {n, n}, 0.3, 0.4), map("beta", {n}, 0.4, 1.0);
      if (c.kind == HyperKind::dynamic)
        map("w_m", {d}, std), map("w_r", {d, n}, std), map("w_b", {d}, std), map("s_alpha", {}, 0.1, 0.4),
            map("s_beta", {}, 0.1, 0.4);
      if (c.kind == HyperKind::mhc) {
        map("phi_pre", {n * d, n}, std), map("phi_post", {n * d, n}, std), map("phi_res", {n * d, n * n}, std);
        map("b_pre", {n}, 0.5), map("b_post", {n}, 0.5), map("b_res", {n, n}, 0.7);
        map("s_pre", {}, 0.1, 0.8), map("s_post", {}, 0.1, 0.8), map("s_res", {}, 0.1, 0.8);
      }
    }
    for (int k = 0; k < 3; ++k) weight[k] = random_normal({c.tokens, d}, number_++);
  }

  /// The same values elsewhere and in another type; what is rounded in the copy is rounded here too.
  HyperLeaves copy(at::Device device, at::ScalarType type) {
    HyperLeaves other = *this;
    other.leaves.clear();
    const at::NoGradGuard no_grad;
    auto move = [&](at::Tensor& mine, at::Tensor& theirs, const std::string& name, bool leaf) {
      if (!mine.defined()) return;
      mine.copy_(mine.to(type));
      theirs = mine.detach().to(at::TensorOptions(device).dtype(type), false, /*copy=*/true);
      if (leaf) other.leaves.emplace_back(name, theirs.set_requires_grad(true));
    };
    size_t i = 0;
    other.each([&](at::Tensor& t) {
      at::Tensor mine = leaves[i].second;
      move(mine, t, leaves[i].first, true);
      ++i;
    });
    for (int k = 0; k < 3; ++k) move(weight[k], other.weight[k], "", false);
    return other;
  }

  /// The streams at the start.
  at::Tensor start() const { return h.expand({test.tokens, test.n, test.d}); }
  at::Tensor update(int k, const at::Tensor& z) const { return test.whole_loss ? r[k] + 0.5 * at::sin(z) : r[k]; }
  Norm end() const { return test.end_norm ? hyper_norm(gain[2]) : Norm{}; }

  int64_t rows() const { return test.kind == HyperKind::mhc ? test.n : 1; }  // of d under one N_map

  HyperCase test;
  at::Tensor h, r[2], gain[3], map_gain[2], weight[3];  // weight: of the loss
  std::vector<at::Tensor> maps[2];
  NamedLeaves leaves;

 private:
  at::Tensor leaf(const std::string& name, at::IntArrayRef shape, double std, double mean = 0.0) {
    const at::Tensor t = (random_normal(shape, number_++) * std + mean).set_requires_grad(true);
    leaves.emplace_back(name, t);
    return t;
  }
  /// Every leaf, in the order they were made.
  template <class F>
  void each(const F& f) {
    f(h), f(r[0]), f(r[1]);
    for (int k = 0; k < 3; ++k)
      if (gain[k].defined()) f(gain[k]);
    for (int k = 0; k < 2; ++k) {
      if (map_gain[k].defined()) f(map_gain[k]);
      for (at::Tensor& map : maps[k]) f(map);
    }
  }
  int64_t number_ = 9000;
};

/// z of both sub-layers and of the end. The update depends on what was read, so that gradients pass through it.
struct HyperRun {
  at::Tensor z[3];
  at::Tensor loss(const HyperLeaves& s) const {
    at::Tensor sum;
    for (int k = s.test.whole_loss ? 0 : 2; k < 3; ++k) {
      const at::Tensor part = (z[k] * s.weight[k]).to(at::kDouble).sum();
      sum = sum.defined() ? sum + part : part;
    }
    return sum;
  }
};

inline HyperRun hyper_fused(const HyperLeaves& s) {
  HyperRun run;
  HyperStepInput in;
  in.h = s.start();
  in.dtype = s.h.scalar_type();
  for (int k = 0; k < 2; ++k) {
    in.kind = s.test.kind;
    in.norm = hyper_norm(s.gain[k]);
    in.map_norm = hyper_norm(s.map_gain[k]);
    in.maps = s.maps[k];
    const HyperStepOutput out = hyper_step(in);
    run.z[k] = out.z;
    in.h = out.h, in.residual = out.residual, in.write = out.write;
    in.r = s.update(k, out.z);
  }
  in.kind = HyperKind::sum;
  in.norm = s.end();
  in.map_norm = {};
  in.maps.clear();
  run.z[2] = hyper_step(in).z;
  return run;
}

struct PlainHyperMaps {
  at::Tensor read, residual, write;
};
inline PlainHyperMaps plain_hyper_maps(const HyperLeaves& s, const at::Tensor& h, int k) {
  const std::vector<at::Tensor>& p = s.maps[k];
  const int64_t n = s.test.n;
  if (s.test.kind == HyperKind::fixed) return {p[0], p[1].t(), p[2]};
  const at::ScalarType type = h.scalar_type();
  if (s.test.kind == HyperKind::dynamic) {
    const at::Tensor x = norm_plain(h, hyper_norm(s.map_gain[k]), type);
    auto part = [&](const at::Tensor& w, const at::Tensor& scale) { return scale * at::tanh(at::matmul(x, w)); };
    return {p[0] + part(p[3], p[6]), (p[1] + part(p[4], p[6])).transpose(-1, -2), p[2] + part(p[5], p[7])};
  }
  const at::Tensor x = norm_plain(h.flatten(-2), hyper_norm(s.map_gain[k]), type);
  auto logits = [&](size_t m) { return p[6 + m] * at::matmul(x, p[m]) + p[3 + m].flatten(); };
  at::Tensor m = at::exp(logits(2).view({-1, n, n}));
  for (int round = 0; round < 20; ++round) {
    m = m / m.sum(-2, true);
    m = m / m.sum(-1, true);
  }
  return {at::sigmoid(logits(0)), m, 2 * at::sigmoid(logits(1))};
}

inline HyperRun hyper_plain(const HyperLeaves& s) {
  HyperRun run;
  at::Tensor h = s.start();
  for (int k = 0; k < 2; ++k) {
    const PlainHyperMaps m = plain_hyper_maps(s, h, k);
    const at::Tensor read = (h * m.read.unsqueeze(-1)).sum(-2);
    run.z[k] = norm_plain(read, hyper_norm(s.gain[k]), h.scalar_type());
    h = at::matmul(m.residual, h) + m.write.unsqueeze(-1) * s.update(k, run.z[k]).unsqueeze(-2);
  }
  run.z[2] = norm_plain(h.sum(-2), s.end(), h.scalar_type());
  return run;
}

inline std::vector<at::Tensor> hyper_gradients(const HyperRun& run, const HyperLeaves& s) {
  torch::autograd::variable_list leaves;
  for (const auto& [name, t] : s.leaves) leaves.push_back(t);
  auto grads = torch::autograd::grad({run.loss(s)}, leaves, {}, std::nullopt, false, /*allow_unused=*/true);
  for (size_t i = 0; i < grads.size(); ++i)
    if (!grads[i].defined()) grads[i] = at::zeros_like(leaves[i]);
  return grads;
}

/// ‖a-b‖ / ‖b‖ in fp64, on the CPU.
inline double distance(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.detach().cpu().to(at::kDouble), y = b.detach().cpu().to(at::kDouble);
  return (x - y).norm().item<double>() / (y.norm().item<double>() + 1e-30);
}

/// Values and all gradients of two runs. A gradient is held to `gradient` of its own norm, or of `floor` times the
/// largest gradient's: one that nearly cancels (a scale, a map that the norm behind it undoes) carries the rounding of
/// the others.
inline void expect_same_runs(const HyperRun& got, const HyperLeaves& s, const HyperRun& want, const HyperLeaves& t,
                             double value, double gradient, double floor = 0.01) {
  for (int k = 0; k < 3; ++k) EXPECT_LE(distance(got.z[k], want.z[k]), value) << "z" << k;
  const std::vector<at::Tensor> a = hyper_gradients(got, s), b = hyper_gradients(want, t);
  auto per_element = [](const at::Tensor& g) {
    return g.norm().item<double>() / std::sqrt(static_cast<double>(std::max<int64_t>(g.numel(), 1)));
  };
  double largest = 0;
  for (const at::Tensor& g : b) largest = std::max(largest, per_element(g.detach().to(at::kDouble)));
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(s.leaves[i].first, t.leaves[i].first);
    ASSERT_EQ(a[i].sizes(), b[i].sizes()) << s.leaves[i].first;
    const at::Tensor x = a[i].cpu().to(at::kDouble), y = b[i].cpu().to(at::kDouble);
    const double scale = std::max(per_element(y), floor * largest);
    EXPECT_LE(per_element(x - y) / scale, gradient) << "gradient of " << s.leaves[i].first;
  }
}

/// In a narrow type: `got` may be as far from the truth as `yardstick`, another way of computing the same in that type,
/// is; gradients that nearly cancel make any fixed bound either useless or wrong.
inline void expect_as_close(const HyperRun& got, const HyperLeaves& s, const HyperRun& yardstick, const HyperLeaves& y,
                            const HyperRun& truth, const HyperLeaves& t, double value, double slack) {
  for (int k = 0; k < 3; ++k) EXPECT_LE(distance(got.z[k], truth.z[k]), value) << "z" << k;
  const std::vector<at::Tensor> a = hyper_gradients(got, s), b = hyper_gradients(yardstick, y),
                                c = hyper_gradients(truth, t);
  auto size = [](const at::Tensor& g) {
    return g.norm().item<double>() / std::sqrt(static_cast<double>(std::max<int64_t>(g.numel(), 1)));
  };
  auto exact = [](const at::Tensor& g) { return g.detach().cpu().to(at::kDouble); };
  double largest = 0;
  for (const at::Tensor& g : c) largest = std::max(largest, size(exact(g)));
  for (size_t i = 0; i < a.size(); ++i) {
    const double mine = size(exact(a[i]) - exact(c[i])), other = size(exact(b[i]) - exact(c[i]));
    EXPECT_LE(mine, 3 * other + slack * std::max(size(exact(c[i])), 0.1 * largest))
        << "gradient of " << s.leaves[i].first;
  }
}

}  // namespace siamese
