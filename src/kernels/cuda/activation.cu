#include "kernels/cuda/activation.h"

#include "kernels/cuda/swiglu.cuh"
#include "kernels/cuda/vec.cuh"

namespace siamese::kernels {
namespace {

constexpr int kThreads = 256;

/// Φ(x) and its derivative φ(x), exact or of the tanh approximation.
template <bool exact>
__device__ __forceinline__ float gelu_gate(float x, float& slope) {
  if (exact) {
    slope = 0.3989422804014327f * expf(-0.5f * x * x);
    return 0.5f * (1.f + erff(x * 0.7071067811865476f));
  }
  const float c = 0.7978845608028654f, k = 0.044715f, t = tanhf(c * (x + k * x * x * x));
  slope = 0.5f * (1.f - t * t) * c * (1.f + 3.f * k * x * x);
  return 0.5f * (1.f + t);
}

template <class T, ActivationKind kind>
__global__ void __launch_bounds__(kThreads) forward_kernel(const T* p, T* out, int64_t vectors, int width8) {
  const int64_t at = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (at >= vectors) return;
  Float8 a;
  if (kind == ActivationKind::swiglu) {
    const int64_t row = at / width8, from = 8 * (at + row * width8);
    a = load8(p + from);
    const Float8 b = load8(p + from + 8 * static_cast<int64_t>(width8));
#pragma unroll
    for (int i = 0; i < 8; ++i) a.v[i] = swiglu<sizeof(T) == 2>(a.v[i], b.v[i]);
  } else {
    a = load8(p + 8 * at);
    float slope;
#pragma unroll
    for (int i = 0; i < 8; ++i) a.v[i] *= gelu_gate<kind == ActivationKind::gelu>(a.v[i], slope);
  }
  store8(out + 8 * at, a);
}

template <class T, ActivationKind kind>
__global__ void __launch_bounds__(kThreads)
    backward_kernel(const T* p, const T* g, T* gp, T* again, int64_t vectors, int width8) {
  const int64_t at = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (at >= vectors) return;
  Float8 grad = load8(g + 8 * at), out;
  if (kind == ActivationKind::swiglu) {
    const int64_t row = at / width8, from = 8 * (at + row * width8), second = from + 8 * static_cast<int64_t>(width8);
    Float8 a = load8(p + from), b = load8(p + second);
#pragma unroll
    for (int i = 0; i < 8; ++i) out.v[i] = swiglu_backward<sizeof(T) == 2>(a.v[i], b.v[i], grad.v[i]);
    store8(gp + from, a);
    store8(gp + second, b);
  } else {
    const Float8 x = load8(p + 8 * at);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      float slope;
      const float gate = gelu_gate<kind == ActivationKind::gelu>(x.v[i], slope);
      out.v[i] = x.v[i] * gate;
      grad.v[i] *= gate + x.v[i] * slope;
    }
    store8(gp + 8 * at, grad);
  }
  if (again != nullptr) store8(again + 8 * at, out);
}

template <class T, class F>
cudaError_t with_kind(ActivationKind kind, const F& f) {
  switch (kind) {
    case ActivationKind::swiglu:
      f(forward_kernel<T, ActivationKind::swiglu>, backward_kernel<T, ActivationKind::swiglu>);
      break;
    case ActivationKind::gelu:
      f(forward_kernel<T, ActivationKind::gelu>, backward_kernel<T, ActivationKind::gelu>);
      break;
    case ActivationKind::gelu_tanh:
      f(forward_kernel<T, ActivationKind::gelu_tanh>, backward_kernel<T, ActivationKind::gelu_tanh>);
      break;
  }
  return cudaGetLastError();
}

unsigned blocks_for(int64_t vectors) { return static_cast<unsigned>((vectors + kThreads - 1) / kThreads); }

template <class T>
cudaError_t forward(ActivationKind kind, const void* p, void* out, int64_t rows, int64_t width, cudaStream_t stream) {
  const int64_t vectors = rows * width / 8;
  return with_kind<T>(kind, [&](auto kernel, auto) {
    kernel<<<blocks_for(vectors), kThreads, 0, stream>>>(static_cast<const T*>(p), static_cast<T*>(out), vectors,
                                                         static_cast<int>(width / 8));
  });
}

template <class T>
cudaError_t backward(ActivationKind kind, const void* p, const void* g, void* gp, void* again, int64_t rows,
                     int64_t width, cudaStream_t stream) {
  const int64_t vectors = rows * width / 8;
  return with_kind<T>(kind, [&](auto, auto kernel) {
    kernel<<<blocks_for(vectors), kThreads, 0, stream>>>(static_cast<const T*>(p), static_cast<const T*>(g),
                                                         static_cast<T*>(gp), static_cast<T*>(again), vectors,
                                                         static_cast<int>(width / 8));
  });
}

}  // namespace

cudaError_t activation_forward_cuda(ActivationKind kind, bool bf16, const void* p, void* out, int64_t rows,
                                    int64_t width, cudaStream_t stream) {
  if (width % 8 != 0) return cudaErrorInvalidValue;
  if (rows == 0 || width == 0) return cudaSuccess;
  return bf16 ? forward<bfloat>(kind, p, out, rows, width, stream) : forward<float>(kind, p, out, rows, width, stream);
}

cudaError_t activation_backward_cuda(ActivationKind kind, bool bf16, const void* p, const void* g, void* gp,
                                     void* again, int64_t rows, int64_t width, cudaStream_t stream) {
  if (width % 8 != 0) return cudaErrorInvalidValue;
  if (rows == 0 || width == 0) return cudaSuccess;
  return bf16 ? backward<bfloat>(kind, p, g, gp, again, rows, width, stream)
              : backward<float>(kind, p, g, gp, again, rows, width, stream);
}

}  // namespace siamese::kernels
