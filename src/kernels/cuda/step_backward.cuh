// Backward pass of the stream step (formulas in stream_step.h). With t = γg, a norm's transpose is
//   Nᵀg = ρ(t - x̂·mean(x̂t) [- mean(t), layer]),  dγ = Σ g·x̂,  dβ = Σ g
// and the chain runs  g_z → (scale) → N_inᵀ → g_u → {N_xᵀ(g_X + g_u) | g_X + c1⊙g_u} = g_x̃,  N_yᵀ g_u + g_y' = g_y,
// g_w = a·g_x̃ + g_y → (row scale) → N_rᵀ → (gate) → g_r. The gradient handed back for x is that of X₀.
// A kernel file a pair of types, so that they compile side by side.
#pragma once

#include "kernels/cuda/step_common.cuh"

namespace siamese::kernels {

__host__ __device__ constexpr int step_columns(bool layer, bool sample) { return (layer ? 6 : 3) + (sample ? 3 : 0); }

__device__ __forceinline__ void add_product(Float8& sum, const Float8& a, const Float8& b) {
#pragma unroll
  for (int i = 0; i < 8; ++i) sum.v[i] += a.v[i] * b.v[i];
}
/// Adds this thread's part of Σ x̂t (and Σ t) to the sums a norm's transpose needs.
template <bool layer>
__device__ __forceinline__ void add_sums(float& xt, float& t_sum, const Float8& hat, const Float8& t) {
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    xt += hat.v[i] * t.v[i];
    if (layer) t_sum += t.v[i];
  }
}
/// ρ(t - x̂·xt - t_mean), 0 where the row has ended.
template <bool layer>
__device__ __forceinline__ Float8 transposed(const Float8& hat, const Float8& t, float rho, float xt, float t_mean,
                                             int count) {
  Float8 g;
#pragma unroll
  for (int i = 0; i < 8; ++i) g.v[i] = layer && i >= count ? 0.f : rho * (t.v[i] - hat.v[i] * xt - t_mean);
  return g;
}

/// `two`: both streams, or x alone; otherwise y alone. `sample`: gate, scale or shift take part.
template <class S, class Z, bool two, bool layer, bool sample, int V>
__global__ void __launch_bounds__(kStepThreads) step_backward_kernel(StepCuda p, int row_threads) {
  constexpr int C = step_columns(layer, sample), kSample = layer ? 6 : 3;
  constexpr int kBiasA = layer ? kStepBiasA : 0, kBiasY = layer ? kStepBiasY : 0, kBiasIn = layer ? kStepBiasIn : 0;
  const StepPlace<V> at(row_threads);
  const StepRows rows = step_rows(p);
  const int d = static_cast<int>(p.d), width = static_cast<int>(p.width);
  RowSums sums(row_threads, 1.f / static_cast<float>(width));
  Float8 total[C][V];
#pragma unroll
  for (int k = 0; k < V; ++k)
#pragma unroll
    for (int c = 0; c < C; ++c) total[c][k] = zero8();
  auto vector = [&](const void* from, int k, float otherwise) { return vector8<Z>(from, at.column(k), d, otherwise); };
  auto of_sample = [&](const void* from, int k, float otherwise) {
    return vector(from == nullptr ? nullptr : static_cast<const Z*>(from) + rows.sample * d, k, otherwise);
  };
  const bool reads_y = p.y != nullptr && !p.skip_y;
  const float row_scale = p.row_scale != nullptr ? p.row_scale[rows.sample] : 1.f;
  for (int64_t first = rows.begin; first < rows.end; first += at.rows_at_once) {
    const int64_t row = first + at.slot;
    const bool active = row < rows.end;
    auto there = [&](int k) { return active && at.column(k) < d; };
    auto where = [&](int k) { return row * d + at.column(k); };
    auto count = [&](int k) { return width - at.column(k); };
    Raw8<S> x[V], y[V], gx[V], gy[V];
    Raw8<Z> gz[V];
#pragma unroll
    for (int k = 0; k < V; ++k) {
      if (two) x[k] = fetch8_if(there(k) && p.x != nullptr, static_cast<const S*>(p.x) + where(k));
      y[k] = fetch8_if(there(k) && p.y != nullptr, static_cast<const S*>(p.y) + where(k));
      gz[k] = fetch8_if(there(k) && p.g_z != nullptr, static_cast<const Z*>(p.g_z) + where(k));
      if (two) gx[k] = fetch8_if(there(k) && p.g_x_out != nullptr, static_cast<const S*>(p.g_x_out) + where(k));
      gy[k] = fetch8_if(there(k) && p.g_y_out != nullptr, static_cast<const S*>(p.g_y_out) + where(k));
    }
    auto stat = [&](int slot) { return active ? p.stats[slot * p.rows + row] : 0.f; };
    const float rho_a = stat(0), rho_y = stat(1), rho_in = stat(2);
    const float mean_a = layer ? stat(3) : 0.f, mean_y = layer ? stat(4) : 0.f, mean_in = layer ? stat(5) : 0.f;
    // x̂ and ŷ where they are normed, x̃ and y' where not: unpacked again in each phase, registers are what is short.
    auto x_of = [&](int k) {
      const Float8 v = widen(x[k]);
      return p.norm_x ? hat_of<layer>(v, mean_a, rho_a, count(k)) : v;
    };
    auto y_of = [&](int k) {
      const Float8 v = widen(y[k]);
      return p.norm_y ? hat_of<layer>(v, mean_y, rho_y, count(k)) : v;
    };
    // Phase one: u and z again, the sums of N_in; gu takes t = γg (or g itself without N_in).
    Float8 gu[V];
    float in[2] = {0.f, 0.f};
    auto u_of = [&](int k) {
      Float8 u = zero8();
      if (two)
        u = affine<layer>(x_of(k), vector(p.norm_x ? p.gain_a : p.c1, k, 1.f),
                          layer ? vector(p.norm_x ? p.bias_a : nullptr, k, 0.f) : zero8());
      if (reads_y) add(u, affine<layer>(y_of(k), vector(p.gain_y, k, 1.f), layer ? vector(p.bias_y, k, 0.f) : zero8()));
      return p.norm_in ? hat_of<layer>(u, mean_in, rho_in, count(k)) : u;
    };
#pragma unroll
    for (int k = 0; k < V; ++k) {
      gu[k] = widen(gz[k]);
      const bool needs_u = p.norm_in || p.z_again != nullptr || sample;
      if (!needs_u) continue;
      const Float8 u = u_of(k);
      Float8 z = u, gain = fill8(1.f);
      if (p.norm_in) {
        gain = vector(p.gain_in, k, 1.f);
        z = affine<layer>(u, gain, layer ? vector(p.bias_in, k, 0.f) : zero8());
      }
      if (sample) {
        add_product(total[kSample + kStepScale][k], gu[k], z);
        add(total[kSample + kStepShift][k], gu[k]);
        Float8 s = of_sample(p.scale, k, 0.f);
#pragma unroll
        for (int i = 0; i < 8; ++i) s.v[i] += 1.f;
        gu[k] = product(gu[k], s);
        z = affine<true>(z, s, of_sample(p.shift, k, 0.f));
      }
      if (p.z_again != nullptr && there(k)) store8(static_cast<Z*>(p.z_again) + where(k), z);
      if (p.norm_in) {
        add_product(total[kStepGainIn][k], gu[k], u);
        if (layer) add(total[kBiasIn][k], gu[k]);
        gu[k] = product(gu[k], gain);
        add_sums<layer>(in[0], in[1], u, gu[k]);
      }
    }
    if (p.norm_in) sums.mean(in);
    // Phase two: g_u, the sums of N_x and N_y.
    float both[4] = {0.f, 0.f, 0.f, 0.f};
#pragma unroll
    for (int k = 0; k < V; ++k) {
      if (p.norm_in) gu[k] = transposed<layer>(u_of(k), gu[k], rho_in, in[0], in[1], count(k));
      if (two) {
        const Float8 xs = x_of(k);
        if (p.norm_x) {
          Float8 g = widen(gx[k]);
          add(g, gu[k]);
          add_product(total[kStepGainA][k], g, xs);
          if (layer) add(total[kBiasA][k], g);
          add_sums<layer>(both[0], both[1], xs, product(g, vector(p.gain_a, k, 1.f)));
        } else if (p.c1 != nullptr) {
          add_product(total[kStepGainA][k], gu[k], xs);
        }
      }
      if (reads_y && p.norm_y) {
        const Float8 ys = y_of(k);
        add_product(total[kStepGainY][k], gu[k], ys);
        if (layer) add(total[kBiasY][k], gu[k]);
        add_sums<layer>(both[2], both[3], ys, product(gu[k], vector(p.gain_y, k, 1.f)));
      }
    }
    if (p.norm_x || p.norm_y) sums.mean(both);
    // Phase three: the gradients of the streams; gu takes g_w.
    float of_r[2] = {0.f, 0.f};
#pragma unroll
    for (int k = 0; k < V; ++k) {
      Float8 g = widen(gy[k]);
      if (reads_y) {
        Float8 part = gu[k];
        if (p.norm_y)
          part = transposed<layer>(y_of(k), product(part, vector(p.gain_y, k, 1.f)), rho_y, both[2], both[3], count(k));
        add(g, part);
      }
      if (there(k) && p.g_y != nullptr) store8(static_cast<S*>(p.g_y) + where(k), g);
      if (two) {
        Float8 part = widen(gx[k]);
        if (p.norm_x) {
          add(part, gu[k]);
          part = transposed<layer>(x_of(k), product(part, vector(p.gain_a, k, 1.f)), rho_a, both[0], both[1], count(k));
        } else {
          add_product(part, gu[k], vector(p.c1, k, 1.f));
        }
        if (there(k) && p.g_x != nullptr) store8(static_cast<S*>(p.g_x) + where(k), part);
#pragma unroll
        for (int i = 0; i < 8; ++i) g.v[i] += p.a * part.v[i];
      }
#pragma unroll
      for (int i = 0; i < 8; ++i) gu[k].v[i] = row_scale * g.v[i];
      if (!two && p.norm_r) {
        Float8 r = load8_if(there(k), static_cast<const Z*>(p.r) + where(k));
        if (sample) r = product(r, of_sample(p.gate, k, 1.f));
        r = hat_of<layer>(r, mean_a, rho_a, count(k));
        add_product(total[kStepGainA][k], gu[k], r);
        if (layer) add(total[kBiasA][k], gu[k]);
        gu[k] = product(gu[k], vector(p.gain_a, k, 1.f));
        add_sums<layer>(of_r[0], of_r[1], r, gu[k]);
      }
    }
    if (!two && p.norm_r) sums.mean(of_r);
    if (p.g_r == nullptr && !sample) continue;
#pragma unroll
    for (int k = 0; k < V; ++k) {
      if (!two && p.norm_r) {
        Float8 r = load8_if(there(k), static_cast<const Z*>(p.r) + where(k));
        if (sample) r = product(r, of_sample(p.gate, k, 1.f));
        gu[k] = transposed<layer>(hat_of<layer>(r, mean_a, rho_a, count(k)), gu[k], rho_a, of_r[0], of_r[1], count(k));
      }
      if (sample && p.gate != nullptr) {
        add_product(total[kSample + kStepGate][k], gu[k], load8_if(there(k), static_cast<const Z*>(p.r) + where(k)));
        gu[k] = product(gu[k], of_sample(p.gate, k, 1.f));
      }
      if (there(k) && p.g_r != nullptr) store8(static_cast<Z*>(p.g_r) + where(k), gu[k]);
    }
  }
  // The rows a block had in hand at once are added in order through shared memory: one partial row a block and column.
  __shared__ float shared[kStepThreads * 8];
#pragma unroll
  for (int c = 0; c < C; ++c) {
#pragma unroll
    for (int k = 0; k < V; ++k) {
      Float8 sum = total[c][k];
      if (at.rows_at_once > 1) {
        __syncthreads();
        store8(shared + threadIdx.x * 8, sum);
        __syncthreads();
        for (int s = 1; s < at.rows_at_once && at.slot == 0; ++s)
          add(sum, load8(shared + (static_cast<int>(threadIdx.x) + s * row_threads) * 8));
      }
      if (at.slot == 0 && at.column(k) < d)
        store8(p.partial + (static_cast<int64_t>(blockIdx.x) * C + c) * d + at.column(k), sum);
    }
  }
}

/// Both entry points for a pair of types: with `parts->parts` 0 they are counted, otherwise the pass is launched.
template <class S, class Z>
cudaError_t step_backward_typed(const StepCuda& call, StepParts* parts, cudaStream_t stream) {
  const StepShape shape = step_shape(call);
  return with_step_shape<S>(call, shape, [&](auto layer, auto vectors) {
    constexpr bool l = decltype(layer)::value;
    constexpr int v = decltype(vectors)::value;
    // For the longest rows there is only the most general kernel.
    const bool sample = call.gate != nullptr || call.scale != nullptr || call.shift != nullptr || v == 8;
    auto launch = [&](auto kernel) {
      if (parts->parts == 0) {
        parts->columns = step_columns(call.layer, sample);
        return parts_for(kernel, call, shape, 0, &parts->parts);
      }
      kernel<<<static_cast<unsigned>(parts->parts), kStepThreads, 0, stream>>>(call, shape.row_threads);
      return cudaGetLastError();
    };
    const bool two = call.x != nullptr;
    if constexpr (v != 8) {
      if (!sample)
        return two ? launch(step_backward_kernel<S, Z, true, l, false, v>)
                   : launch(step_backward_kernel<S, Z, false, l, false, v>);
    }
    return two ? launch(step_backward_kernel<S, Z, true, l, true, v>)
               : launch(step_backward_kernel<S, Z, false, l, true, v>);
  });
}

}  // namespace siamese::kernels
