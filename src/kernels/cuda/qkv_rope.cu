#include "kernels/cuda/qkv_rope.h"

#include "kernels/cuda/vec.cuh"

namespace siamese::kernels {
namespace {

constexpr int kThreads = 256;

/// Sum over the lanes of a head.
__device__ __forceinline__ float head_sum(float v, int lanes) {
  for (int offset = lanes / 2; offset > 0; offset >>= 1) v += __shfl_xor_sync(0xffffffffU, v, offset);
  return v;
}

/// Mean (layer) and 1/sqrt(mean square + ε) of a head's values.
__device__ __forceinline__ void head_statistics(const Float8& x, const QkvRope& p, int lanes, float& mean, float& rho) {
  const float inverse = 1.f / static_cast<float>(p.dim);
  mean = 0.f;
  if (p.layer) {
    float sum = 0.f;
#pragma unroll
    for (int i = 0; i < 8; ++i) sum += x.v[i];
    mean = head_sum(sum, lanes) * inverse;
  }
  float square = 0.f;
#pragma unroll
  for (int i = 0; i < 8; ++i) square += (x.v[i] - mean) * (x.v[i] - mean);
  rho = rsqrtf(head_sum(square, lanes) * inverse + p.eps);
}

/// R (sign 1) or its transpose (sign -1) of the head whose lanes hold x.
__device__ __forceinline__ Float8 rotated(const Float8& x, const QkvRope& p, int64_t position, int lane, int lanes,
                                          float sign) {
  const int half = lanes / 2;
  const int64_t at = position * (p.dim / 2) + 8 * (lane % half);
  const Float8 c = load8(p.cos + at), s = load8(p.sin + at);
  const float direction = lane < half ? -sign : sign;
  Float8 out;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const float partner = __shfl_xor_sync(0xffffffffU, x.v[i], half);
    out.v[i] = x.v[i] * c.v[i] + direction * partner * s.v[i];
  }
  return out;
}

/// One vector of a walk over all heads: its token, head and lane of the head. 32-bit: divisions are slow enough.
struct Spot {
  int token, head, lane;
  bool there;

  __device__ Spot(int at, int count, int lanes, int heads) : there(at < count) {
    const int index = at / lanes;
    lane = at - index * lanes;
    token = index / heads;
    head = index - token * heads;
  }
};

template <class T>
__device__ __forceinline__ Float8 affine_of(const QkvRope& p, int part, int lane, float otherwise, bool gain) {
  Float8 f = fill8(otherwise);
  const void* from = gain ? p.gain[part] : p.bias[part];
  if (from != nullptr) f = load8(static_cast<const T*>(from) + 8 * lane);
  return f;
}

template <class T>
__global__ void __launch_bounds__(kThreads) forward_kernel(QkvRope p, int heads_touched) {
  const int all = p.heads + 2 * p.kv_heads, lanes = p.dim / 8;
  const int count = static_cast<int>(p.tokens) * heads_touched * lanes;
  // Whole warps stay in the loop: lanes exchange values.
  for (int base = static_cast<int>(blockIdx.x) * kThreads; base < count;
       base += static_cast<int>(gridDim.x) * kThreads) {
    const auto [token, head, lane, there] = Spot(base + static_cast<int>(threadIdx.x), count, lanes, heads_touched);
    const int part = head < p.heads ? kQuery : head < p.heads + p.kv_heads ? kKey : kValue;
    const int64_t where = (static_cast<int64_t>(token) * all + head) * p.dim + 8 * lane;
    Float8 x = load8_if(there, static_cast<const T*>(p.in) + where);
    if (p.norm[kQuery] || p.norm[kKey] || p.norm[kValue]) {
      float mean, rho;
      head_statistics(x, p, lanes, mean, rho);
      if (p.norm[part]) {
        const Float8 g = affine_of<T>(p, part, lane, 1.f, true), b = affine_of<T>(p, part, lane, 0.f, false);
#pragma unroll
        for (int i = 0; i < 8; ++i) x.v[i] = (x.v[i] - mean) * rho * g.v[i] + b.v[i];
      }
    }
    const Float8 turned = rotated(x, p, there ? token % static_cast<int>(p.length) : 0, lane, lanes, 1.f);
    if (part != kValue) x = turned;
    if (there) store8(static_cast<T*>(p.out) + where, x);
  }
}

template <class T, bool normed>
__global__ void __launch_bounds__(kThreads) backward_kernel(QkvRope p) {
  const int all = p.heads + 2 * p.kv_heads, lanes = p.dim / 8;
  const int count = static_cast<int>(p.tokens) * all * lanes, length = static_cast<int>(p.length);
  Float8 total[6];
#pragma unroll
  for (int c = 0; c < 6; ++c) total[c] = zero8();
  for (int base = static_cast<int>(blockIdx.x) * kThreads; base < count;
       base += static_cast<int>(gridDim.x) * kThreads) {
    const auto [token, head, lane, there] = Spot(base + static_cast<int>(threadIdx.x), count, lanes, all);
    const int part = head < p.heads ? kQuery : head < p.heads + p.kv_heads ? kKey : kValue;
    const int in_part = part == kQuery ? head : part == kKey ? head - p.heads : head - p.heads - p.kv_heads;
    const int batch = token / length, position = token - batch * length;
    const int64_t from =
        batch * p.batch_stride[part] + position * p.token_stride[part] + in_part * p.head_stride[part] + 8 * lane;
    Float8 g = load8_if(there, static_cast<const T*>(p.g[part]) + from);
    const Float8 turned = rotated(g, p, there ? position : 0, lane, lanes, -1.f);
    if (part != kValue) g = turned;
    const int64_t where = (static_cast<int64_t>(token) * all + head) * p.dim + 8 * lane;
    if (normed) {
      Float8 x = load8_if(there, static_cast<const T*>(p.in) + where);
      float mean, rho;
      head_statistics(x, p, lanes, mean, rho);
      Float8 t = affine_of<T>(p, part, lane, 1.f, true);
      float xt = 0.f, t_sum = 0.f;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        x.v[i] = (x.v[i] - mean) * rho;
        t.v[i] *= g.v[i];
        xt += x.v[i] * t.v[i];
        t_sum += t.v[i];
      }
      const float inverse = 1.f / static_cast<float>(p.dim);
      xt = head_sum(xt, lanes) * inverse;
      t_sum = p.layer ? head_sum(t_sum, lanes) * inverse : 0.f;
#pragma unroll
      for (int q = 0; q < 3; ++q) {  // constant indices keep the sums in registers
        if (q != part || !there) continue;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          total[q].v[i] += g.v[i] * x.v[i];
          total[3 + q].v[i] += g.v[i];
        }
      }
      if (p.norm[part]) {
#pragma unroll
        for (int i = 0; i < 8; ++i) g.v[i] = rho * (t.v[i] - x.v[i] * xt - t_sum);
      }
    }
    if (there) store8(static_cast<T*>(p.out) + where, g);
  }
  if (normed) {  // threads with the same lane of a head add up in order through shared memory
    __shared__ float shared[kThreads * 8];
#pragma unroll
    for (int c = 0; c < 6; ++c) {
      __syncthreads();
      store8(shared + threadIdx.x * 8, total[c]);
      __syncthreads();
      for (int column = static_cast<int>(threadIdx.x); column < p.dim; column += kThreads) {
        float sum = 0.f;
        for (int t = column / 8; t < kThreads; t += lanes) sum += shared[t * 8 + column % 8];
        p.partial[(static_cast<int64_t>(blockIdx.x) * 6 + c) * p.dim + column] = sum;
      }
    }
  }
}

template <class K>
cudaError_t blocks_for(K kernel, int64_t vectors, int* out) {
  int device = 0, processors = 0, each = 0;
  if (const cudaError_t e = cudaGetDevice(&device); e != cudaSuccess) return e;
  if (const cudaError_t e = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
      e != cudaSuccess)
    return e;
  if (const cudaError_t e = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, kThreads, 0); e != cudaSuccess)
    return e;
  const int64_t useful = (vectors + kThreads - 1) / kThreads, resident = static_cast<int64_t>(processors) * each;
  *out = static_cast<int>(useful < resident ? (useful < 1 ? 1 : useful) : resident);
  return cudaSuccess;
}

auto backward_of(const QkvRope& p) {
  const bool normed = p.norm[kQuery] || p.norm[kKey] || p.norm[kValue];
  if (p.bf16) return normed ? backward_kernel<bfloat, true> : backward_kernel<bfloat, false>;
  return normed ? backward_kernel<float, true> : backward_kernel<float, false>;
}

int64_t vectors_of(const QkvRope& p) { return p.tokens * (p.heads + 2 * p.kv_heads) * (p.dim / 8); }

}  // namespace

bool qkv_rope_fits(int64_t dim) { return dim >= 16 && dim <= 256 && (dim & (dim - 1)) == 0; }

cudaError_t qkv_rope_forward_cuda(const QkvRope& call, cudaStream_t stream) {
  if (!qkv_rope_fits(call.dim) || vectors_of(call) > INT32_MAX / 2) return cudaErrorInvalidValue;
  if (call.tokens == 0) return cudaSuccess;
  // In place, values without a norm are left alone.
  const bool values = call.out != call.in || call.norm[kValue];
  const int heads = call.heads + (values ? 2 : 1) * call.kv_heads;
  int blocks = 0;
  const auto kernel = call.bf16 ? forward_kernel<bfloat> : forward_kernel<float>;
  if (const cudaError_t e = blocks_for(kernel, vectors_of(call), &blocks); e != cudaSuccess) return e;
  kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(call, heads);
  return cudaGetLastError();
}

cudaError_t qkv_rope_parts(const QkvRope& call, StepParts* out) {
  out->columns = 6;
  return blocks_for(backward_of(call), vectors_of(call), &out->parts);
}

cudaError_t qkv_rope_backward_cuda(const QkvRope& call, const StepParts& parts, cudaStream_t stream) {
  if (!qkv_rope_fits(call.dim) || vectors_of(call) > INT32_MAX / 2) return cudaErrorInvalidValue;
  if (call.tokens == 0) return cudaSuccess;
  const auto kernel = backward_of(call);
  kernel<<<static_cast<unsigned>(parts.parts), kThreads, 0, stream>>>(call);
  return cudaGetLastError();
}

}  // namespace siamese::kernels
