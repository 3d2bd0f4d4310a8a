// Backward pass of the stream step (formulas in stream_step.h). With t = γg, a norm's transpose is
//   Nᵀg = ρ(t - x̂·mean(x̂t) [- mean(t), layer]),  dγ = Σ g·x̂,  dβ = Σ g
// and the chain runs  g_z → (scale) → N_inᵀ → g_u → {N_xᵀ(g_X + g_u) | g_X + c1⊙g_u} = g_x̃,  N_yᵀ g_u + g_y' = g_y,
// g_w = a·g_x̃ + g_y → (row scale) → N_rᵀ → (gate) → g_r. The gradient handed back for x is that of X₀; joined, that
// handed back for y is g_w.
#pragma once

#include "kernels/cuda/step_columns.cuh"

namespace siamese::kernels {

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
///
/// Two passes over a row's values, with one exchange between its lanes. With a = γ_x x̂ (or c1⊙x̃), b = γ_y ŷ, û, t =
/// γ_in g: g_u = ρ_u(t - û·s - s'), and what N_x and N_y need, mean(a(g_X + g_u)) and mean(b g_u), is linear in s and
/// s': all the means that occur are taken before s is known.
template <class S, class Z, bool two, bool layer, bool sample, int V, int W, StepForm form>
__global__ void __launch_bounds__(kStepThreads, V <= 4 ? 2 : 1) step_backward_kernel(StepCuda p, int row_threads) {
  constexpr int C = step_columns(layer, sample), kSample = layer ? 6 : 3;
  extern __shared__ float4 dynamic_memory[];
  float* shared = reinterpret_cast<float*>(dynamic_memory);
  const StepPlace<W> at(row_threads);
  const StepRows rows = step_rows(p);
  const int d = static_cast<int>(p.d), width = static_cast<int>(p.width);
  RowSums<W> sums(row_threads, 1.f / static_cast<float>(width));
  ColumnSumsOfWarp<C, V> columns(shared);
  auto vector = [&](const void* from, int k) { return gain8<Z>(from, at.column(k), d); };
  auto bias = [&](const void* from, int k) { return bias8<Z>(from, at.column(k), d); };
  auto of_sample = [&](const void* from, int k, float otherwise) {
    Float8 f = fill8(otherwise);
    if (from != nullptr) f = vector(static_cast<const Z*>(from) + rows.sample * p.sample_stride, k);
    return f;
  };
  constexpr bool any = form == StepForm::any, whole = form == StepForm::whole;
  const bool reads_y = any ? p.y != nullptr && !p.skip_y : true;
  const bool norm_x = any ? two && p.norm_x : two && whole, norm_y = any ? reads_y && p.norm_y : true;
  const bool norm_in = any ? p.norm_in : two && whole, norm_r = any && !two && p.norm_r;
  const bool has_c1 = any ? p.c1 != nullptr : !whole;
  const float row_scale = any && p.row_scale != nullptr ? p.row_scale[rows.sample] : 1.f;
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
      if (two) x[k] = fetch8_if(there(k) && (!any || p.x != nullptr), static_cast<const S*>(p.x) + where(k));
      y[k] = fetch8_if(there(k) && (!any || p.y != nullptr), static_cast<const S*>(p.y) + where(k));
      gz[k] = fetch8_if(there(k) && (!any || p.g_z != nullptr), static_cast<const Z*>(p.g_z) + where(k));
      if (two)
        gx[k] = fetch8_if(there(k) && (!any || p.g_x_out != nullptr), static_cast<const S*>(p.g_x_out) + where(k));
      gy[k] = fetch8_if(there(k) && (!any || p.g_y_out != nullptr), static_cast<const S*>(p.g_y_out) + where(k));
    }
    auto stat = [&](int slot) { return active ? p.stats[slot * p.rows + row] : 0.f; };
    const float rho_a = stat(0), rho_y = stat(1), rho_in = norm_in ? stat(2) : 1.f;
    const float mean_a = layer ? stat(3) : 0.f, mean_y = layer ? stat(4) : 0.f, mean_in = layer ? stat(5) : 0.f;

    /// What both passes rebuild of eight columns.
    struct Part {
      Float8 x, y, a, b, u, t;  // x̂ (or x̃), ŷ (or y'), γx̂ or c1⊙x̃, γŷ, û (or u), t (or g)
    };
    auto rebuild = [&](int k, Float8& z, Float8& g) {
      Part q;
      q.u = zero8();
      if (two) {
        q.x = widen(x[k]);
        if (norm_x) q.x = hat_of<layer>(q.x, mean_a, rho_a, count(k));
        q.a = q.x;
        if (norm_x) {
          q.a = product(q.x, vector(p.gain_a, k));
        } else if (has_c1) {
          q.a = product(q.x, vector(p.c1, k));
        }
        q.u = q.a;
        if (layer && norm_x) add(q.u, bias(p.bias_a, k));
      }
      if (reads_y) {
        q.y = widen(y[k]);
        if (norm_y) q.y = hat_of<layer>(q.y, mean_y, rho_y, count(k));
        q.b = q.y;
        if (norm_y) q.b = product(q.y, vector(p.gain_y, k));
        add(q.u, q.b);
        if (layer && norm_y) add(q.u, bias(p.bias_y, k));
      }
      g = widen(gz[k]);
      z = q.u;
      q.t = g;
      if (sample && p.scale != nullptr) {
        const Float8 s = of_sample(p.scale, k, 0.f);
#pragma unroll
        for (int i = 0; i < 8; ++i) q.t.v[i] *= 1.f + s.v[i];
      }
      if (norm_in) {
        q.u = hat_of<layer>(q.u, mean_in, rho_in, count(k));
        const Float8 gain = vector(p.gain_in, k);
        z = affine<layer>(q.u, gain, layer ? bias(p.bias_in, k) : zero8());
        q.t = product(q.t, gain);
      }
      return q;
    };

    // Pass one. in: Σût, Σt; of_x: Σa(g_X + ρt), Σaû, and under LayerNorm Σγ(g_X + ρt), Σγû, Σγ; of_y likewise.
    float in[2] = {0.f, 0.f}, of_x[2] = {0.f, 0.f}, of_y[2] = {0.f, 0.f};
    float mean_x[3] = {0.f, 0.f, 0.f}, mean_of_y[3] = {0.f, 0.f, 0.f}, plain_x = 0.f, plain_y = 0.f;
    const bool one = norm_in || norm_x || norm_y;
    if (one || p.z_again != nullptr) {
#pragma unroll
      for (int k = 0; k < V; ++k) {
        Float8 z, g;
        const Part q = rebuild(k, z, g);
        if (p.z_again != nullptr && there(k)) {
          if (sample) {
            const Float8 s = of_sample(p.scale, k, 0.f), t = of_sample(p.shift, k, 0.f);
#pragma unroll
            for (int i = 0; i < 8; ++i) z.v[i] = z.v[i] * (1.f + s.v[i]) + t.v[i];
          }
          store8(static_cast<Z*>(p.z_again) + where(k), z);
        }
        if (norm_in) {
#pragma unroll
          for (int i = 0; i < 8; ++i) {
            in[0] += q.u.v[i] * q.t.v[i];
            if (layer) in[1] += q.t.v[i];
          }
        }
        if (norm_x) {
          const Float8 gX = widen(gx[k]), gain = layer ? vector(p.gain_a, k) : zero8();
#pragma unroll
          for (int i = 0; i < 8; ++i) {
            const float sum = gX.v[i] + rho_in * q.t.v[i];
            of_x[0] += q.a.v[i] * sum;
            of_x[1] += q.a.v[i] * q.u.v[i];
            if (layer && i < count(k)) {
              mean_x[0] += gain.v[i] * sum;
              mean_x[1] += gain.v[i] * q.u.v[i];
              mean_x[2] += gain.v[i];
              plain_x += q.a.v[i];
            }
          }
        }
        if (norm_y) {
          const Float8 gain = layer ? vector(p.gain_y, k) : zero8();
#pragma unroll
          for (int i = 0; i < 8; ++i) {
            of_y[0] += q.b.v[i] * q.t.v[i];
            of_y[1] += q.b.v[i] * q.u.v[i];
            if (layer && i < count(k)) {
              mean_of_y[0] += gain.v[i] * q.t.v[i];
              mean_of_y[1] += gain.v[i] * q.u.v[i];
              mean_of_y[2] += gain.v[i];
              plain_y += q.b.v[i];
            }
          }
        }
      }
    }
    // s and s' of N_in, then mean(x̂t) and mean(t) of N_x and N_y: g_u = ρ(t - û·s - s'), t_x = γ(g_X + g_u).
    float s_in = 0.f, s_in_mean = 0.f, s_x = 0.f, s_x_mean = 0.f, s_y = 0.f, s_y_mean = 0.f;
    if (one) {
      float v[4] = {in[0], of_x[0], of_x[1], of_y[0]}, w[4] = {of_y[1], in[1], plain_x, plain_y};
      sums.mean(v);
      if (layer) {
        sums.mean(w);
        sums.mean(mean_x);
        sums.mean(mean_of_y);
      } else {
        float rest[1] = {w[0]};
        sums.mean(rest);
        w[0] = rest[0];
      }
      if (norm_in) s_in = v[0], s_in_mean = layer ? w[1] : 0.f;
      const float shift = rho_in * s_in, level = rho_in * s_in_mean;
      if (norm_x) s_x = v[1] - shift * v[2] - (layer ? level * w[2] : 0.f);
      if (norm_y) s_y = rho_in * v[3] - shift * w[0] - (layer ? level * w[3] : 0.f);
      if (layer && norm_x) s_x_mean = mean_x[0] - shift * mean_x[1] - level * mean_x[2];
      if (layer && norm_y) s_y_mean = rho_in * mean_of_y[0] - shift * mean_of_y[1] - level * mean_of_y[2];
    }

    // Pass two: column sums and the gradients of the streams; w takes g_w where r is normed or gated.
    Float8 w[V];
    float of_r[2] = {0.f, 0.f};
#pragma unroll
    for (int k = 0; k < V; ++k) {
      Float8 z, g;
      const Part q = rebuild(k, z, g);
      Float8 gu = q.t;
      if (norm_in) gu = transposed<layer>(q.u, q.t, rho_in, s_in, s_in_mean, count(k));
      if (sample) {
        columns.add(kSample + kStepScale, k, product(g, z));
        columns.add(kSample + kStepShift, k, g);
        Float8 s = of_sample(p.scale, k, 0.f);
#pragma unroll
        for (int i = 0; i < 8; ++i) g.v[i] *= 1.f + s.v[i];
      }
      if (norm_in) {
        columns.add(kStepGainIn, k, product(g, q.u));
        if (layer) columns.add(kStepBiasIn, k, g);
      }
      Float8 to_y = widen(gy[k]);
      if (two) {
        const Float8 gX = widen(gx[k]);
#pragma unroll
        for (int i = 0; i < 8; ++i) to_y.v[i] -= p.a_next * gX.v[i];
      }
      if (reads_y) {
        Float8 part = gu;
        if (norm_y) {
          columns.add(kStepGainY, k, product(gu, q.y));
          if (layer) columns.add(kStepBiasY, k, gu);
          part = transposed<layer>(q.y, product(gu, vector(p.gain_y, k)), rho_y, s_y, s_y_mean, count(k));
        }
        add(to_y, part);
      }
      const bool wants_y = there(k) && (!any || p.g_y != nullptr);
      if (wants_y && !(two && p.joined)) store8(static_cast<S*>(p.g_y) + where(k), to_y);
      if (two) {
        Float8 to_x = widen(gx[k]);
        if (norm_x) {
          add(to_x, gu);
          columns.add(kStepGainA, k, product(to_x, q.x));
          if (layer) columns.add(kStepBiasA, k, to_x);
          to_x = transposed<layer>(q.x, product(to_x, vector(p.gain_a, k)), rho_a, s_x, s_x_mean, count(k));
        } else {
          if (has_c1) {
            columns.add(kStepGainA, k, product(gu, q.x));
            add_product(to_x, gu, vector(p.c1, k));
          } else {
            add(to_x, gu);
          }
        }
        if (there(k) && (!any || p.g_x != nullptr)) store8(static_cast<S*>(p.g_x) + where(k), to_x);
#pragma unroll
        for (int i = 0; i < 8; ++i) to_y.v[i] += p.a * to_x.v[i];
        if (wants_y && p.joined) store8(static_cast<S*>(p.g_y) + where(k), to_y);
      }
#pragma unroll
      for (int i = 0; i < 8; ++i) to_y.v[i] = any ? row_scale * to_y.v[i] : to_y.v[i];
      if (norm_r) {
        Float8 r = load8_if(there(k), static_cast<const Z*>(p.r) + where(k));
        if (sample) r = product(r, of_sample(p.gate, k, 1.f));
        r = hat_of<layer>(r, mean_a, rho_a, count(k));
        columns.add(kStepGainA, k, product(to_y, r));
        if (layer) columns.add(kStepBiasA, k, to_y);
        w[k] = product(to_y, vector(p.gain_a, k));
        add_sums<layer>(of_r[0], of_r[1], r, w[k]);
        continue;
      }
      if (sample && p.gate != nullptr) {
        columns.add(kSample + kStepGate, k, product(to_y, load8_if(there(k), static_cast<const Z*>(p.r) + where(k))));
        to_y = product(to_y, of_sample(p.gate, k, 1.f));
      }
      if (there(k) && (any || two) && p.g_r != nullptr) store8(static_cast<Z*>(p.g_r) + where(k), to_y);
    }
    if (!norm_r) continue;
    sums.mean(of_r);
#pragma unroll
    for (int k = 0; k < V; ++k) {
      const Float8 plain = load8_if(there(k), static_cast<const Z*>(p.r) + where(k));
      const Float8 gate = sample ? of_sample(p.gate, k, 1.f) : fill8(1.f);
      Float8 g = transposed<layer>(hat_of<layer>(product(plain, gate), mean_a, rho_a, count(k)), w[k], rho_a, of_r[0],
                                   of_r[1], count(k));
      if (sample && p.gate != nullptr) {
        columns.add(kSample + kStepGate, k, product(g, plain));
        g = product(g, gate);
      }
      if (there(k) && p.g_r != nullptr) store8(static_cast<Z*>(p.g_r) + where(k), g);
    }
  }
  columns.flush(shared, at.row_threads, at.rows_at_once, d, p.partial + static_cast<int64_t>(blockIdx.x) * C * d);
}

}  // namespace siamese::kernels
