// Forward pass before attention by rows:  x ← (x - μ)ρ·γ + β  where normed,  then R on q and k.
#pragma once

#include "kernels/cuda/qkv_rope_rows.cuh"

namespace siamese::kernels::rows {

template <class C, int part, bool normed>
__device__ __forceinline__ void forward_part(const Plan& plan, int index, const Place& at, char* memory) {
  const QkvRope& p = plan.p;
  constexpr bool turned = part != kValue;
  const auto* in = static_cast<const bfloat*>(p.in);
  auto* out = static_cast<bfloat*>(p.out);
  Units<part> ahead(plan, index), here = ahead;
  Ring<C, 1> ring(memory, at);
  auto fetch = [&] {
    if (ahead.more(plan)) {
      const Spot<C, part> s(plan, ahead.unit(), at);
      ring.fetch(0, in + s.packed(p), s.there);
      ahead.next(plan);
    }
    ring.fetched();
  };
#pragma unroll 1
  for (int s = 0; s < C::stages - 1; ++s) fetch();
  RawHalves gains, biases;
  if (normed) gains = affine<C>(p.gain[part], at, 1.f);
  if (normed && C::layer) biases = affine<C>(p.bias[part], at, 0.f);
  Angles angles;
  for (; here.more(plan); here.next(plan)) {
    const Spot<C, part> s(plan, here.unit(), at);
    if (turned) angles.template go<C>(p, s.position, at);
    ring.wait();
    Halves x = widen(ring.get(0));
    ring.taken();
    fetch();
    if (normed) {
      centre<C>(x);
      stay_narrow(gains);
      const Halves gain = widen(gains);
      const float rho = rsqrtf(row_sum<C>(lane_product(x, x)) * (1.f / C::D) + p.eps);
#pragma unroll
      for (int i = 0; i < 8; ++i) x.a.v[i] = x.a.v[i] * rho * gain.a.v[i], x.b.v[i] = x.b.v[i] * rho * gain.b.v[i];
      if (C::layer) {
        stay_narrow(biases);
        const Halves bias = widen(biases);
#pragma unroll
        for (int i = 0; i < 8; ++i) x.a.v[i] += bias.a.v[i], x.b.v[i] += bias.b.v[i];
      }
    }
    if (turned) angles.turn<false>(x);
    put<C>(out + s.packed(p), x, s.there);
  }
}

template <class C, int part>
__device__ __forceinline__ void forward_part(const Plan& plan, const Share& share, const Place& at, char* memory) {
  plan.p.norm[part] ? forward_part<C, part, true>(plan, share.index, at, memory)
                    : forward_part<C, part, false>(plan, share.index, at, memory);
}

template <class C>
__global__ void __launch_bounds__(C::threads, C::blocks) forward_kernel(const __grid_constant__ Plan plan) {
  extern __shared__ __align__(128) char memory[];
  const Place at = Place::of(C{});
  const Share share(plan, at.warp);
  if (share.part == kQuery) forward_part<C, kQuery>(plan, share, at, memory);
  if (share.part == kKey) forward_part<C, kKey>(plan, share, at, memory);
  if (share.part == kValue) forward_part<C, kValue>(plan, share, at, memory);
}

}  // namespace siamese::kernels::rows
