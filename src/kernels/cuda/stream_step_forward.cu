// Forward pass of the stream step (formulas in stream_step.h).
#include "kernels/cuda/step_common.cuh"
#include "kernels/cuda/step_tile.h"

namespace siamese::kernels {
namespace {

/// Σv (layer) or Σv² of eight values.
template <bool layer>
__device__ __forceinline__ void add_first(float& sum, const Float8& v) {
#pragma unroll
  for (int i = 0; i < 8; ++i) sum += layer ? v.v[i] : v.v[i] * v.v[i];
}
__device__ __forceinline__ void add_deviation(float& sum, const Float8& v, float mean, int count) {
#pragma unroll
  for (int i = 0; i < 8; ++i) sum += i < count ? (v.v[i] - mean) * (v.v[i] - mean) : 0.f;
}

template <class S, class Z, bool layer, int V, int W, StepForm form, bool two>
__global__ void __launch_bounds__(kStepThreads, V <= 2   ? 3
                                                : V <= 4 ? 2
                                                         : 1) forward_kernel(StepCuda p, int row_threads) {
  const StepPlace<W> at(row_threads);
  const StepRows rows = step_rows(p);
  const int d = static_cast<int>(p.d), width = static_cast<int>(p.width);
  RowSums<W> sums(row_threads, 1.f / static_cast<float>(width));
  auto vector = [&](const void* from, int k) { return gain8<Z>(from, at.column(k), d); };
  auto bias = [&](const void* from, int k) { return bias8<Z>(from, at.column(k), d); };
  auto of_sample = [&](const void* from, int k) {
    return vector(static_cast<const Z*>(from) + rows.sample * p.sample_stride, k);
  };
  auto normed = [&](const Float8& v, float mean, float rho, const void* gain, const void* shift, int k) {
    return affine<layer>(hat_of<layer>(v, mean, rho, width - at.column(k)), vector(gain, k),
                         layer ? bias(shift, k) : zero8());
  };
  constexpr bool any = form == StepForm::any, whole = form == StepForm::whole;
  const bool has_x = any ? p.x != nullptr : two, has_y = any ? p.y != nullptr : true;
  const bool norm_x = any ? p.norm_x : two && whole, norm_y = any ? p.norm_y : true;
  const bool norm_in = any ? p.norm_in : two && whole, norm_r = any && p.norm_r,
             has_c1 = any ? p.c1 != nullptr : !whole;
  const bool gated = any && p.gate != nullptr, reads_y = any ? has_y && !p.skip_y : true;
  const bool before = two && p.stats_before != nullptr;  // x is raw
  const float on_y = any && p.row_scale != nullptr ? p.row_scale[rows.sample] : 1.f, on_x = p.a * on_y;
  for (int64_t first = rows.begin; first < rows.end; first += at.rows_at_once) {
    const int64_t row = first + at.slot;
    const bool active = row < rows.end;
    auto there = [&](int k) { return active && at.column(k) < d; };
    auto where = [&](int k) { return row * d + at.column(k); };
    Raw8<S> x[V], y[V];
    Raw8<Z> r[V];
#pragma unroll
    for (int k = 0; k < V; ++k) {
      x[k] = fetch8_if(there(k) && has_x, static_cast<const S*>(p.x) + where(k));
      y[k] = fetch8_if(there(k) && has_y, static_cast<const S*>(p.y) + where(k));
      r[k] = fetch8_if(there(k) && (!any || p.r != nullptr), static_cast<const Z*>(p.r) + where(k));
    }
    const float rho_before = before && active ? p.stats_before[row] : 1.f;
    const float mean_before = layer && before && active ? p.stats_before[3 * p.rows + row] : 0.f;
    float mean_a = 0.f, rho_a = 1.f, mean_y = 0.f, rho_y = 1.f, mean_in = 0.f, rho_in = 1.f;
    auto update = [&](int k) {
      Float8 w = widen(r[k]);
      if (gated) w = product(w, of_sample(p.gate, k));
      return w;
    };
    if (norm_r) {
      float sum[1] = {0.f};
#pragma unroll
      for (int k = 0; k < V; ++k) add_first<layer>(sum[0], update(k));
      sums.mean(sum);
      if (layer) {
        mean_a = sum[0], sum[0] = 0.f;
#pragma unroll
        for (int k = 0; k < V; ++k) add_deviation(sum[0], update(k), mean_a, width - at.column(k));
        sums.mean(sum);
      }
      rho_a = rsqrtf(sum[0] + p.eps);
    }
    float both[2] = {0.f, 0.f};
#pragma unroll
    for (int k = 0; k < V; ++k) {
      Float8 w = update(k), xs = widen(x[k]), ys = widen(y[k]);
      if (norm_r) w = normed(w, mean_a, rho_a, p.gain_a, p.bias_a, k);
      if (before) xs = normed(xs, mean_before, rho_before, p.gain_before, p.bias_before, k);
      if (has_x) {
#pragma unroll
        for (int i = 0; i < 8; ++i) xs.v[i] += on_x * w.v[i];
        x[k] = narrow(xs, S{});
        if (there(k) && (!any || p.x_raw != nullptr)) put8(static_cast<S*>(p.x_raw) + where(k), x[k]);
        add_first<layer>(both[0], widen(x[k]));
      }
      if (has_y) {
#pragma unroll
        for (int i = 0; i < 8; ++i) ys.v[i] += on_y * w.v[i];
        y[k] = narrow(ys, S{});
        if (there(k) && (!any || p.y_out != nullptr)) put8(static_cast<S*>(p.y_out) + where(k), y[k]);
        add_first<layer>(both[1], widen(y[k]));
      }
    }
    if (norm_x || norm_y) sums.mean(both);
    if (layer && (norm_x || norm_y)) {
      if (norm_x) mean_a = both[0];
      mean_y = both[1];
      float square[2] = {0.f, 0.f};
#pragma unroll
      for (int k = 0; k < V; ++k) {
        if (norm_x) add_deviation(square[0], widen(x[k]), mean_a, width - at.column(k));
        if (norm_y) add_deviation(square[1], widen(y[k]), mean_y, width - at.column(k));
      }
      sums.mean(square);
      both[0] = square[0], both[1] = square[1];
    }
    if (norm_x) rho_a = rsqrtf(both[0] + p.eps);
    if (norm_y) rho_y = rsqrtf(both[1] + p.eps);
    Float8 u[V];
    float in[1] = {0.f};
#pragma unroll
    for (int k = 0; k < V; ++k) {
      u[k] = zero8();
      if (has_x) {
        u[k] = widen(x[k]);
        if (norm_x) u[k] = normed(u[k], mean_a, rho_a, p.gain_a, p.bias_a, k);
        if (any && there(k) && p.x_out != nullptr) store8(static_cast<S*>(p.x_out) + where(k), u[k]);
        if (has_c1) u[k] = product(u[k], vector(p.c1, k));
      }
      if (reads_y) {
        Float8 ys = widen(y[k]);
        if (norm_y) ys = normed(ys, mean_y, rho_y, p.gain_y, p.bias_y, k);
        add(u[k], ys);
      }
      if (norm_in) add_first<layer>(in[0], u[k]);
    }
    if (norm_in) {
      sums.mean(in);
      if (layer) {
        mean_in = in[0], in[0] = 0.f;
#pragma unroll
        for (int k = 0; k < V; ++k) add_deviation(in[0], u[k], mean_in, width - at.column(k));
        sums.mean(in);
      }
      rho_in = rsqrtf(in[0] + p.eps);
    }
#pragma unroll
    for (int k = 0; k < V; ++k) {
      if (norm_in) u[k] = normed(u[k], mean_in, rho_in, p.gain_in, p.bias_in, k);
      if (any && p.scale != nullptr) {
        const Float8 s = of_sample(p.scale, k);
#pragma unroll
        for (int i = 0; i < 8; ++i) u[k].v[i] *= 1.f + s.v[i];
      }
      if (any && p.shift != nullptr) add(u[k], bias(static_cast<const Z*>(p.shift) + rows.sample * p.sample_stride, k));
      if (there(k)) store8(static_cast<Z*>(p.z) + where(k), u[k]);
    }
    if (active && at.lane == 0) {
      p.stats[row] = rho_a, p.stats[p.rows + row] = rho_y, p.stats[2 * p.rows + row] = rho_in;
      if (layer) {
        p.stats[3 * p.rows + row] = mean_a, p.stats[4 * p.rows + row] = mean_y;
        p.stats[5 * p.rows + row] = mean_in;
      }
    }
  }
}

template <class S, class Z>
cudaError_t launch(const StepCuda& call, cudaStream_t stream) {
  const StepShape shape = step_shape(call);
  return with_step_shape<S>(call, shape, [&](auto layer, auto vectors, auto warps) {
    constexpr bool l = decltype(layer)::value;
    constexpr int v = decltype(vectors)::value, w = decltype(warps)::value;
    auto run = [&](auto kernel) {
      int parts = 0;
      if (const cudaError_t e = parts_for(kernel, call, shape, 0, &parts); e != cudaSuccess) return e;
      kernel<<<static_cast<unsigned>(parts), kStepThreads, 0, stream>>>(call, shape.row_threads);
      return cudaGetLastError();
    };
    if constexpr (w > 0) {
      const bool two = call.x != nullptr;
      const bool complete = call.y != nullptr && call.r != nullptr && !call.skip_y && call.norm_y && !call.norm_r &&
                            call.row_scale == nullptr && call.gate == nullptr && call.scale == nullptr &&
                            call.shift == nullptr && call.x_out == nullptr && call.y_out != nullptr &&
                            (!two || call.x_raw != nullptr);
      if (complete && !two && !call.norm_in) return run(forward_kernel<S, Z, l, v, w, StepForm::whole, false>);
      if constexpr (v < 4) {  // two streams have no registers for more
        if (complete && two && call.norm_x && call.norm_in)
          return run(forward_kernel<S, Z, l, v, w, StepForm::whole, true>);
        if (complete && two && !call.norm_x && !call.norm_in && call.c1 != nullptr)
          return run(forward_kernel<S, Z, l, v, w, StepForm::mixed, true>);
      }
    }
    return run(forward_kernel<S, Z, l, v, 0, StepForm::any, true>);
  });
}

}  // namespace

cudaError_t step_forward_cuda(const StepCuda& call, cudaStream_t stream) {
  if (call.rows == 0) return cudaSuccess;
  if (!step_sizes_fit(call)) return cudaErrorInvalidValue;
  if (cudaError_t e = cudaSuccess; step_forward_by_tiles(call, stream, &e)) return e;
  switch (call.types) {
    case StepTypes::bf16_bf16:
      return launch<bfloat, bfloat>(call, stream);
    case StepTypes::fp32_bf16:
      return launch<float, bfloat>(call, stream);
    case StepTypes::fp32_fp32:
      return launch<float, float>(call, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace siamese::kernels
