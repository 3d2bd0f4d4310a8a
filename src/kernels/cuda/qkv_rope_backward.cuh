// Backward pass before attention by rows. With g ← Rᵀg, x̂ = (x - μ)ρ, t = γg and means over the row:
//   g_x = ρ(t - x̂·mean(x̂t) - mean(t)),   g_γ = Σ g·x̂,   g_β = Σ g      (RMSNorm: no μ, no mean(t), no β)
// RMSNorm's two sums cross the lanes together, as Σx² and Σxt need no statistic; LayerNorm's in two rounds of two.
#pragma once

#include "kernels/cuda/early_launch.cuh"
#include "kernels/cuda/qkv_rope_rows.cuh"

namespace siamese::kernels::rows {

/// A lane's part of the sums over rows.
template <class C>
struct Sums {
  Halves gain{zero8(), zero8()}, bias{zero8(), zero8()};
};

template <class C>
__device__ __forceinline__ void norm_backward(Halves& g, Halves x, const Halves& gain, float eps, bool there,
                                              Sums<C>& sums) {
  constexpr float kInverse = 1.f / C::D;
  Halves t;
#pragma unroll
  for (int i = 0; i < 8; ++i) t.a.v[i] = g.a.v[i] * gain.a.v[i], t.b.v[i] = g.b.v[i] * gain.b.v[i];
  float t_mean = 0.f;
  centre<C>(x);
  if (C::layer) t_mean = row_sum<C>(lane_sum(t)) * kInverse;
  const float square = row_sum<C>(lane_product(x, x)), product = row_sum<C>(lane_product(x, t));
  // A row that is not there is 0, as is its gradient: it must not count even where ε is 0.
  const float rho = there ? rsqrtf(square * kInverse + eps) : 0.f, xt = rho * product * kInverse;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const float a = x.a.v[i] * rho, b = x.b.v[i] * rho;
    sums.gain.a.v[i] += g.a.v[i] * a, sums.gain.b.v[i] += g.b.v[i] * b;
    if (C::layer) sums.bias.a.v[i] += g.a.v[i], sums.bias.b.v[i] += g.b.v[i];
    g.a.v[i] = rho * (t.a.v[i] - a * xt - t_mean), g.b.v[i] = rho * (t.b.v[i] - b * xt - t_mean);
  }
}

template <class C, int part, bool normed>
__device__ __forceinline__ void backward_part(const Plan& plan, int index, const Place& at, char* memory,
                                              Sums<C>& sums) {
  const QkvRope& p = plan.p;
  constexpr bool turned = part != kValue;
  const auto *in = static_cast<const bfloat*>(p.in), *grad = static_cast<const bfloat*>(p.g[part]);
  auto* out = static_cast<bfloat*>(p.out);
  Units<part> ahead(plan, index), here = ahead;
  Ring<C, 2> ring(memory, at);
  auto fetch = [&] {
    if (ahead.more(plan)) {
      const Spot<C, part> s(plan, ahead.unit(), at);
      ring.fetch(0, grad + s.strided(p), s.there);
      if (normed) ring.fetch(1, in + s.packed(p), s.there);
      ahead.next(plan);
    }
    ring.fetched();
  };
#pragma unroll 1
  for (int s = 0; s < C::stages - 1; ++s) fetch();
  RawHalves gains;
  if (normed) gains = affine<C>(p.gain[part], at, 1.f);
  Angles angles;
  for (; here.more(plan); here.next(plan)) {
    const Spot<C, part> s(plan, here.unit(), at);
    if (turned) angles.template go<C>(p, s.position, at);
    ring.wait();
    Halves g = widen(ring.get(0));
    RawHalves raw_x;
    if (normed) raw_x = ring.get(1);
    ring.taken();
    fetch();
    if (turned) angles.turn<true>(g);
    if (normed) stay_narrow(gains), norm_backward(g, widen(raw_x), widen(gains), p.eps, s.there, sums);
    put<C>(out + s.packed(p), g, s.there);
  }
}

/// Stage one of the column sums: rows of a warp by shuffles, warps of a part in order. All warps have read their rows:
/// the sums take the ring's place. Columns of parts that no warp of this block has are 0.
template <class C>
__device__ __forceinline__ void write_sums(const Plan& plan, const Sums<C>& sums, const Place& at, float* shared) {
  constexpr int kColumns = C::layer ? 2 : 1, kWarps = C::threads / 32;
#pragma unroll
  for (int c = 0; c < kColumns; ++c) {
    const Halves& s = c == 0 ? sums.gain : sums.bias;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      float a = s.a.v[i], b = s.b.v[i];
#pragma unroll
      for (int offset = 16; offset >= C::lanes; offset >>= 1)
        a += __shfl_xor_sync(0xffffffffU, a, offset), b += __shfl_xor_sync(0xffffffffU, b, offset);
      float* mine = shared + (c * kWarps + at.warp) * C::D + 8 * at.column + i;
      if (at.row == 0) mine[0] = a, mine[C::D / 2] = b;
    }
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kColumns * 3 * C::D; i += C::threads) {
    const int c = i / (3 * C::D), part = i / C::D % 3, column = i % C::D;
    float sum = 0.f;
    for (int w = 0; w < kWarps; ++w)
      if (Share(plan, w).part == part) sum += shared[(c * kWarps + w) * C::D + column];
    plan.p.partial[(static_cast<int64_t>(blockIdx.x) * 6 + 3 * c + part) * C::D + column] = sum;
  }
}

template <class C, int part>
__device__ __forceinline__ void backward_part(const Plan& plan, const Share& share, const Place& at, char* memory,
                                              Sums<C>& sums) {
  plan.p.norm[part] ? backward_part<C, part, true>(plan, share.index, at, memory, sums)
                    : backward_part<C, part, false>(plan, share.index, at, memory, sums);
}

template <class C>
__global__ void __launch_bounds__(C::threads, C::blocks) backward_kernel(const __grid_constant__ Plan plan) {
  extern __shared__ __align__(128) char memory[];
  allow_next();
  const Place at = Place::of(C{});
  const Share share(plan, at.warp);
  Sums<C> sums;
  if (share.part == kQuery) backward_part<C, kQuery>(plan, share, at, memory, sums);
  if (share.part == kKey) backward_part<C, kKey>(plan, share, at, memory, sums);
  if (share.part == kValue) backward_part<C, kValue>(plan, share, at, memory, sums);
  __syncthreads();
  write_sums(plan, sums, at, reinterpret_cast<float*>(memory));
}

}  // namespace siamese::kernels::rows
