// Every form, type and head size; the form training runs through with norms has faster kernels (qkv_rope_rows.h).
#include "kernels/cuda/qkv_rope.h"

#include "kernels/cuda/processors.h"
#include "kernels/cuda/qkv_rope_rows.h"
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

/// The angles of a position for one lane of a head; all heads of a token share them.
struct Angles {
  Float8 cos, sin;

  __device__ Angles(const QkvRope& p, int64_t position, int lane, int lanes) {
    const int64_t at = position * (p.dim / 2) + 8 * (lane % (lanes / 2));
    cos = load8(p.cos + at), sin = load8(p.sin + at);
  }
};

/// R (sign 1) or its transpose (sign -1) of the head whose lanes hold x.
__device__ __forceinline__ Float8 rotated(const Float8& x, const Angles& angles, int lane, int lanes, float sign) {
  const int half = lanes / 2;
  const float direction = lane < half ? -sign : sign;
  Float8 out;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const float partner = __shfl_xor_sync(0xffffffffU, x.v[i], half);
    out.v[i] = x.v[i] * angles.cos.v[i] + direction * partner * angles.sin.v[i];
  }
  return out;
}

/// The heads of one part (q, k or v). A thread takes one lane of up to `ahead` heads of a token at a time, `groups`
/// apart: their loads are under way together and they share the angles. 32-bit: divisions are slow enough.
struct Walk {
  int lanes, first, per, groups, count;  // first: head in the packed row; per: heads a thread takes

  __device__ Walk(const QkvRope& p, int part, int ahead) : lanes(p.dim / 8) {
    const int heads = part == kQuery ? p.heads : p.kv_heads;
    first = part == kQuery ? 0 : part == kKey ? p.heads : p.heads + p.kv_heads;
    per = heads % ahead == 0 ? ahead : 1;
    groups = heads / per;
    count = static_cast<int>(p.tokens) * groups * lanes;
  }
};
struct Spot {
  int token, head, lane;  // head: of the part, the first of those the thread takes
  bool there;

  __device__ Spot(int at, const Walk& walk) : there(at < walk.count) {
    const int index = at / walk.lanes;
    lane = at - index * walk.lanes;
    token = index / walk.groups;
    head = index - token * walk.groups;
  }
};

template <class T>
__device__ __forceinline__ Float8 affine_of(const void* from, int lane, float otherwise) {
  Float8 f = fill8(otherwise);
  if (from != nullptr) f = load8(static_cast<const T*>(from) + 8 * lane);
  return f;
}

template <class T, bool normed>
__global__ void __launch_bounds__(kThreads) forward_kernel(QkvRope p, int parts_touched) {
  constexpr int kAhead = normed ? 2 : 4;
  const int all = p.heads + 2 * p.kv_heads, step = static_cast<int>(gridDim.x) * kThreads;
  for (int part = 0; part < parts_touched; ++part) {
    const Walk walk(p, part, kAhead);
    // Whole warps stay in the loop: lanes exchange values.
    for (int base = static_cast<int>(blockIdx.x) * kThreads; base < walk.count; base += step) {
      const Spot s(base + static_cast<int>(threadIdx.x), walk);
      auto where = [&](int j) {
        return (static_cast<int64_t>(s.token) * all + walk.first + s.head + j * walk.groups) * p.dim + 8 * s.lane;
      };
      Raw8<T> raw[kAhead];
#pragma unroll
      for (int j = 0; j < kAhead; ++j)
        raw[j] = fetch8_if(s.there && j < walk.per, static_cast<const T*>(p.in) + where(j));
      const Angles angles(p, s.there ? s.token % static_cast<int>(p.length) : 0, s.lane, walk.lanes);
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
        Float8 x = widen(raw[j]);
        if (normed && p.norm[part]) {
          float mean, rho;
          head_statistics(x, p, walk.lanes, mean, rho);
          const Float8 g = affine_of<T>(p.gain[part], s.lane, 1.f), b = affine_of<T>(p.bias[part], s.lane, 0.f);
#pragma unroll
          for (int i = 0; i < 8; ++i) x.v[i] = (x.v[i] - mean) * rho * g.v[i] + b.v[i];
        }
        if (part != kValue) x = rotated(x, angles, s.lane, walk.lanes, 1.f);
        if (s.there && j < walk.per) store8(static_cast<T*>(p.out) + where(j), x);
      }
    }
  }
}

template <class T, bool normed>
__global__ void __launch_bounds__(kThreads) backward_kernel(QkvRope p) {
  constexpr int kAhead = normed ? 2 : 4;
  const int all = p.heads + 2 * p.kv_heads, step = static_cast<int>(gridDim.x) * kThreads;
  const int length = static_cast<int>(p.length);
  for (int part = 0; part < 3; ++part) {
    const Walk walk(p, part, kAhead);
    Float8 gain_sum = zero8(), bias_sum = zero8();
    for (int base = static_cast<int>(blockIdx.x) * kThreads; base < walk.count; base += step) {
      const Spot s(base + static_cast<int>(threadIdx.x), walk);
      const int batch = s.token / length, position = s.token - batch * length;
      auto where = [&](int j) {
        return (static_cast<int64_t>(s.token) * all + walk.first + s.head + j * walk.groups) * p.dim + 8 * s.lane;
      };
      Raw8<T> raw_g[kAhead], raw_x[kAhead];
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
        const bool there = s.there && j < walk.per;
        const int64_t from = batch * p.batch_stride[part] + position * p.token_stride[part] +
                             (s.head + j * walk.groups) * p.head_stride[part] + 8 * s.lane;
        raw_g[j] = fetch8_if(there, static_cast<const T*>(p.g[part]) + from);
        if (normed) raw_x[j] = fetch8_if(there, static_cast<const T*>(p.in) + where(j));
      }
      const Angles angles(p, s.there ? position : 0, s.lane, walk.lanes);
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
        Float8 g = widen(raw_g[j]);
        if (part != kValue) g = rotated(g, angles, s.lane, walk.lanes, -1.f);
        if (normed && p.norm[part]) {
          Float8 x = widen(raw_x[j]), t = affine_of<T>(p.gain[part], s.lane, 1.f);
          float mean, rho, xt = 0.f, t_sum = 0.f;
          head_statistics(x, p, walk.lanes, mean, rho);
#pragma unroll
          for (int i = 0; i < 8; ++i) {
            x.v[i] = (x.v[i] - mean) * rho;
            t.v[i] *= g.v[i];
            xt += x.v[i] * t.v[i];
            t_sum += t.v[i];
            gain_sum.v[i] += g.v[i] * x.v[i];
            bias_sum.v[i] += g.v[i];
          }
          const float inverse = 1.f / static_cast<float>(p.dim);
          xt = head_sum(xt, walk.lanes) * inverse;
          t_sum = p.layer ? head_sum(t_sum, walk.lanes) * inverse : 0.f;
#pragma unroll
          for (int i = 0; i < 8; ++i) g.v[i] = rho * (t.v[i] - x.v[i] * xt - t_sum);
        }
        if (s.there && j < walk.per) store8(static_cast<T*>(p.out) + where(j), g);
      }
    }
    if (normed) {  // threads with the same lane of a head add up in order through shared memory
      __shared__ float shared[kThreads * 8];
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        __syncthreads();
        store8(shared + threadIdx.x * 8, c == 0 ? gain_sum : bias_sum);
        __syncthreads();
        for (int column = static_cast<int>(threadIdx.x); column < p.dim; column += kThreads) {
          float sum = 0.f;
          for (int t = column / 8; t < kThreads; t += walk.lanes) sum += shared[t * 8 + column % 8];
          p.partial[(static_cast<int64_t>(blockIdx.x) * 6 + 3 * c + part) * p.dim + column] = sum;
        }
      }
    }
  }
}

template <class K>
cudaError_t blocks_for(K kernel, int64_t vectors, int* out) {
  int processors = 0, each = 0;
  if (const cudaError_t e = count_processors(&processors); e != cudaSuccess) return e;
  if (const cudaError_t e = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, kThreads, 0); e != cudaSuccess)
    return e;
  const int64_t useful = (vectors + kThreads - 1) / kThreads, resident = static_cast<int64_t>(processors) * each;
  *out = static_cast<int>(useful < resident ? (useful < 1 ? 1 : useful) : resident);
  return cudaSuccess;
}

bool any_norm(const QkvRope& p) { return p.norm[kQuery] || p.norm[kKey] || p.norm[kValue]; }

auto forward_of(const QkvRope& p) {
  const bool normed = any_norm(p);
  if (p.bf16) return normed ? forward_kernel<bfloat, true> : forward_kernel<bfloat, false>;
  return normed ? forward_kernel<float, true> : forward_kernel<float, false>;
}
auto backward_of(const QkvRope& p) {
  const bool normed = any_norm(p);
  if (p.bf16) return normed ? backward_kernel<bfloat, true> : backward_kernel<bfloat, false>;
  return normed ? backward_kernel<float, true> : backward_kernel<float, false>;
}

int64_t vectors_of(const QkvRope& p) { return p.tokens * (p.heads + 2 * p.kv_heads) * (p.dim / 8); }

}  // namespace

bool qkv_rope_fits(int64_t dim) { return dim >= 16 && dim <= 256 && (dim & (dim - 1)) == 0; }

cudaError_t qkv_rope_forward_cuda(const QkvRope& call, cudaStream_t stream) {
  if (!qkv_rope_fits(call.dim) || vectors_of(call) > INT32_MAX / 2) return cudaErrorInvalidValue;
  if (call.tokens == 0) return cudaSuccess;
  if (cudaError_t e = cudaSuccess; qkv_rope_forward_by_rows(call, stream, &e)) return e;
  // In place, values without a norm are left alone.
  const bool values = call.out != call.in || call.norm[kValue];
  int blocks = 0;
  const auto kernel = forward_of(call);
  if (const cudaError_t e = blocks_for(kernel, vectors_of(call), &blocks); e != cudaSuccess) return e;
  kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(call, values ? 3 : 2);
  return cudaGetLastError();
}

cudaError_t qkv_rope_parts(const QkvRope& call, StepParts* out) {
  *out = {0, 6};
  if (cudaError_t e = cudaSuccess; qkv_rope_backward_by_rows(call, out, nullptr, &e)) return e;
  return blocks_for(backward_of(call), vectors_of(call), &out->parts);
}

cudaError_t qkv_rope_backward_cuda(const QkvRope& call, const StepParts& parts, cudaStream_t stream) {
  if (!qkv_rope_fits(call.dim) || vectors_of(call) > INT32_MAX / 2) return cudaErrorInvalidValue;
  if (call.tokens == 0) return cudaSuccess;
  StepParts mine = parts;
  if (cudaError_t e = cudaSuccess; qkv_rope_backward_by_rows(call, &mine, stream, &e)) return e;
  const auto kernel = backward_of(call);
  kernel<<<static_cast<unsigned>(parts.parts), kThreads, 0, stream>>>(call);
  return cudaGetLastError();
}

}  // namespace siamese::kernels
