// AdamW over all parameters at once: a thread block takes one chunk of one tensor, a thread four values at a time (most
// of what moves is fp32, and only whole 16-byte accesses side by side fill the sectors that are written).
#include <type_traits>

#include "kernels/cuda/adamw.h"
#include "kernels/cuda/vec.cuh"

namespace siamese::kernels {
namespace {

constexpr int kThreads = 256, kControlThreads = 1024;
constexpr int kRounds = kAdamwChunk / (4 * kThreads);
static_assert(kAdamwChunk % (4 * kThreads) == 0, "a full chunk has no tail");

struct Four {
  float v[4];
};

__device__ __forceinline__ Four load4(const float* p) {
  const float4 f = *reinterpret_cast<const float4*>(p);
  return {{f.x, f.y, f.z, f.w}};
}
__device__ __forceinline__ Four load4(const bfloat* p) {
  const uint2 w = *reinterpret_cast<const uint2*>(p);
  return {{__uint_as_float(w.x << 16), __uint_as_float(w.x & 0xffff0000U), __uint_as_float(w.y << 16),
           __uint_as_float(w.y & 0xffff0000U)}};
}
__device__ __forceinline__ void store4(float* p, const Four& f) {
  *reinterpret_cast<float4*>(p) = make_float4(f.v[0], f.v[1], f.v[2], f.v[3]);
}
__device__ __forceinline__ void store4(bfloat* p, const Four& f) {
  const __nv_bfloat162 low = __floats2bfloat162_rn(f.v[0], f.v[1]), high = __floats2bfloat162_rn(f.v[2], f.v[3]);
  *reinterpret_cast<uint2*>(p) =
      make_uint2(*reinterpret_cast<const uint32_t*>(&low), *reinterpret_cast<const uint32_t*>(&high));
}

/// Four values at an aligned address, or (`kWhole` false) the `left` that exist of them, one by one; the others read 0.
/// The compiler is told that an address from a table is global memory: it cannot know.
template <bool kWhole, class T>
__device__ __forceinline__ Four load4(const T* p, int left) {
  __builtin_assume(__isGlobal(p));
  if constexpr (kWhole) {
    return load4(p);
  } else {
    Four f;
#pragma unroll
    for (int k = 0; k < 4; ++k) f.v[k] = k < left ? to_float(p[k]) : 0.f;
    return f;
  }
}
template <bool kWhole, class T>
__device__ __forceinline__ void store4(T* p, const Four& f, int left) {
  __builtin_assume(__isGlobal(p));
  if constexpr (kWhole) {
    store4(p, f);
  } else {
#pragma unroll
    for (int k = 0; k < 4; ++k)
      if (k < left) p[k] = from_float<T>(f.v[k]);
  }
}

/// This block's chunk: pointers moved to its first element.
struct Part {
  AdamwTensor t;
  const void* gradient;
  bool bf16;
  int count;

  __device__ explicit Part(const AdamwTables& tables) {
    const AdamwChunk chunk = tables.chunks[blockIdx.x];
    t = tables.tensors[chunk.tensor];
    const AdamwGradient g = tables.gradients[chunk.tensor];
    const int64_t first = static_cast<int64_t>(chunk.number) * kAdamwChunk, left = t.count - first;
    count = left < kAdamwChunk ? static_cast<int>(left) : kAdamwChunk;
    bf16 = g.bf16 != 0;
    gradient = g.data;
    if (gradient != nullptr) gradient = static_cast<const char*>(gradient) + first * (bf16 ? 2 : 4);
    if (t.parameter != nullptr) t.parameter = static_cast<bfloat*>(t.parameter) + first;
    if (t.average != nullptr) t.average += first;
    t.master += first, t.m += first, t.v += first, t.offset += first;
  }

  __device__ uint64_t gradient_address() const { return reinterpret_cast<uint64_t>(gradient); }
  /// Low bits of everything the update touches; null pointers add none.
  __device__ uint64_t addresses() const {
    return gradient_address() | reinterpret_cast<uint64_t>(t.parameter) | reinterpret_cast<uint64_t>(t.master) |
           reinterpret_cast<uint64_t>(t.m) | reinterpret_cast<uint64_t>(t.v) | reinterpret_cast<uint64_t>(t.average);
  }
};

__device__ bool aligned16(uint64_t addresses) { return addresses % 16 == 0; }

/// Calls f(first element, elements left, whether the group is whole) for this thread's groups of four, `kUnroll` of
/// them at a time in a full chunk.
template <int kUnroll, class F>
__device__ __forceinline__ void for_groups(int count, bool aligned, const F& f) {
  const int thread = static_cast<int>(threadIdx.x);
  if (aligned && count == kAdamwChunk) {
#pragma unroll kUnroll
    for (int round = 0; round < kRounds; ++round) f(4 * (round * kThreads + thread), 4, std::true_type{});
    return;
  }
  for (int i = 4 * thread; i < count; i += 4 * kThreads) {
    if (aligned && count - i >= 4) {
      f(i, 4, std::true_type{});
    } else {
      f(i, count - i, std::false_type{});
    }
  }
}

/// Calls f with the gradient as a pointer of its type.
template <class F>
__device__ __forceinline__ void with_gradient(const Part& part, const F& f) {
  if (part.bf16) {
    f(static_cast<const bfloat*>(part.gradient));
  } else {
    f(static_cast<const float*>(part.gradient));
  }
}

__global__ void plan_kernel(AdamwControl* control, double lr, double step) {
  control->lr = lr;
  control->step = step;
}

__global__ void __launch_bounds__(kThreads) accumulate_kernel(AdamwTables tables, float* sums, bool add) {
  const Part part(tables);
  if (add && part.gradient == nullptr) return;
  float* sum = sums + part.t.offset;
  const bool aligned = aligned16(part.gradient_address() | reinterpret_cast<uint64_t>(sum));
  with_gradient(part, [&](auto* g) {
    for_groups<4>(part.count, aligned, [&](int i, int left, auto whole) {
      Four x = g != nullptr ? load4<whole.value>(g + i, left) : Four{};
      if (add) {
        const Four before = load4<whole.value>(sum + i, left);
#pragma unroll
        for (int k = 0; k < 4; ++k) x.v[k] += before.v[k];
      }
      store4<whole.value>(sum + i, x, left);
    });
  });
}

/// partials[chunk] = sum g², added up in an order that depends on the chunk's size alone.
__global__ void __launch_bounds__(kThreads) squares_kernel(AdamwTables tables, float* partials) {
  __shared__ float of_warp[kThreads / 32];
  const Part part(tables);
  Four sums{};
  if (part.gradient != nullptr) {
    with_gradient(part, [&](auto* g) {
      for_groups<8>(part.count, aligned16(part.gradient_address()), [&](int i, int left, auto whole) {
        const Four x = load4<whole.value>(g + i, left);
#pragma unroll
        for (int k = 0; k < 4; ++k) sums.v[k] = fmaf(x.v[k], x.v[k], sums.v[k]);
      });
    });
  }
  const float sum = warp_sum((sums.v[0] + sums.v[1]) + (sums.v[2] + sums.v[3]));
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  float total = 0;
  for (int w = 0; w < kThreads / 32; ++w) total += of_warp[w];
  partials[blockIdx.x] = total;
}

/// One block: the norm from the partial sums, and all that the update derives from it.
__global__ void __launch_bounds__(kControlThreads)
    control_kernel(AdamwControl* control, const float* partials, int64_t chunks, const double* loss) {
  __shared__ double sums[kControlThreads];
  double sum = 0;
  for (int64_t i = threadIdx.x; i < chunks; i += kControlThreads) sum += static_cast<double>(partials[i]);
  sums[threadIdx.x] = sum;
  for (int half = kControlThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  if (threadIdx.x != 0) return;
  AdamwControl c = *control;
  c.norm = sqrt(sums[0]);
  c.loss = loss != nullptr ? *loss : 0.0;
  if (c.bad_step == 0 && !(isfinite(c.norm) && isfinite(c.loss))) c.bad_step = c.step;
  c.scale = c.clip > 0 && c.norm > c.clip ? c.clip / (c.norm + 1e-6) : 1.0;
  c.step_size = c.lr / (1.0 - pow(c.beta1, c.step));
  c.over_root = 1.0 / sqrt(1.0 - pow(c.beta2, c.step));
  *control = c;
}

/// The control block in fp32, as one tensor needs it.
struct Rates {
  float scale, decay, rate1, beta2, rate2, step_size, over_root, eps, average;

  __device__ Rates(const AdamwControl& c, const AdamwTensor& t)
      : scale(static_cast<float>(c.scale)),
        decay(t.decays != 0 ? static_cast<float>(t.rate * c.lr * c.weight_decay) : 0.f),
        rate1(static_cast<float>(1.0 - c.beta1)),
        beta2(static_cast<float>(c.beta2)),
        rate2(static_cast<float>(1.0 - c.beta2)),
        step_size(static_cast<float>(t.rate * c.step_size)),
        over_root(static_cast<float>(c.over_root)),
        eps(static_cast<float>(c.eps)),
        average(static_cast<float>(c.average_rate)) {}
};

template <bool kWhole, class G>
__device__ __forceinline__ void update4(const AdamwTensor& t, const G* g, int i, int left, const Rates& r) {
  Four p = load4<kWhole>(t.master + i, left), m = load4<kWhole>(t.m + i, left), v = load4<kWhole>(t.v + i, left);
  const Four gradient = g != nullptr ? load4<kWhole>(g + i, left) : Four{};
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const float x = r.scale * gradient.v[k];
    m.v[k] = fmaf(r.rate1, x - m.v[k], m.v[k]);
    v.v[k] = fmaf(r.beta2, v.v[k], r.rate2 * x * x);
    p.v[k] = fmaf(-r.decay, p.v[k], p.v[k]) - r.step_size * m.v[k] / fmaf(sqrtf(v.v[k]), r.over_root, r.eps);
  }
  store4<kWhole>(t.m + i, m, left);
  store4<kWhole>(t.v + i, v, left);
  store4<kWhole>(t.master + i, p, left);
  if (t.parameter != nullptr) store4<kWhole>(static_cast<bfloat*>(t.parameter) + i, p, left);
  if (t.average != nullptr) {
    Four average = load4<kWhole>(t.average + i, left);
#pragma unroll
    for (int k = 0; k < 4; ++k) average.v[k] = fmaf(r.average, p.v[k] - average.v[k], average.v[k]);
    store4<kWhole>(t.average + i, average, left);
  }
}

__global__ void __launch_bounds__(kThreads, 4) update_kernel(AdamwTables tables, const AdamwControl* control) {
  if (control->bad_step != 0) return;
  const Part part(tables);
  const Rates rates(*control, part.t);
  with_gradient(part, [&](auto* g) {
    for_groups<1>(part.count, aligned16(part.addresses()),
                  [&](int i, int left, auto whole) { update4<whole.value>(part.t, g, i, left, rates); });
  });
}

}  // namespace

cudaError_t adamw_plan_cuda(AdamwControl* control, double lr, double step, cudaStream_t stream) {
  plan_kernel<<<1, 1, 0, stream>>>(control, lr, step);
  return cudaGetLastError();
}

cudaError_t adamw_accumulate_cuda(const AdamwTables& tables, float* sums, bool add, cudaStream_t stream) {
  if (tables.chunk_count == 0) return cudaSuccess;
  accumulate_kernel<<<static_cast<unsigned>(tables.chunk_count), kThreads, 0, stream>>>(tables, sums, add);
  return cudaGetLastError();
}

cudaError_t adamw_step_cuda(const AdamwTables& tables, AdamwControl* control, float* partials, const double* loss,
                            cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(tables.chunk_count);
  if (blocks > 0) squares_kernel<<<blocks, kThreads, 0, stream>>>(tables, partials);
  control_kernel<<<1, kControlThreads, 0, stream>>>(control, partials, tables.chunk_count, loss);
  if (blocks > 0) update_kernel<<<blocks, kThreads, 0, stream>>>(tables, control);
  return cudaGetLastError();
}

}  // namespace siamese::kernels
