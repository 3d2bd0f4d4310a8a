// The arithmetic of mhc's forward kernels on a thread's columns: mixing, and reading with what the whole row gave.
#pragma once

#include "kernels/cuda/mhc.h"
#include "kernels/cuda/mhc_tile.cuh"
#include "kernels/mhc_maps.h"

namespace siamese::kernels {

// Sums over a token's row: 24 products with the weights, 10 of the streams with one another (i <= j), 2 unused.
constexpr int kProducts = 24, kGram = 10, kSums = 36;
constexpr int kMaps = 20;  // A [to][from], B

/// H' = A H + B r of one word (two columns) of the streams and r, and what it adds to the streams' products with one
/// another, the first of `gram`.
template <int G>
__device__ __forceinline__ void mix(const uint32_t (&in)[5], const float (&maps)[kMaps], uint32_t (&out)[4],
                                    float (&gram)[G]) {
  static_assert(G >= kGram);
  float a[4], b[4];
#pragma unroll
  for (int to = 0; to < 4; ++to) {
    a[to] = b[to] = 0.f;
#pragma unroll
    for (int from = 0; from < 5; ++from) {
      const float factor = maps[from < 4 ? 4 * to + from : 16 + to];
      a[to] += factor * low(in[from]);
      b[to] += factor * high(in[from]);
    }
    out[to] = pack(a[to], b[to]);
  }
  int k = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int j = i; j < 4; ++j, ++k) gram[k] += a[i] * a[j] + b[i] * b[j];
  }
}

/// The same of the thread's columns in one group.
__device__ __forceinline__ void mix(const Words (&in)[5], const float (&maps)[kMaps], Words (&out)[4],
                                    float (&gram)[kGram]) {
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    const uint32_t words[5] = {in[0].w[w], in[1].w[w], in[2].w[w], in[3].w[w], in[4].w[w]};
    uint32_t mixed[4];
    mix(words, maps, mixed, gram);
#pragma unroll
    for (int to = 0; to < 4; ++to) out[to].w[w] = mixed[to];
  }
}

/// What a token is read with, from its sums over the whole row. The four lanes of a token share the work.
struct Reading {
  float a[4], map_rho, rho;
  __device__ Reading(const MhcForwardCuda& p, const float* sums, float s, float b, int lane) {
    const float4 low4 = *reinterpret_cast<const float4*>(sums + kProducts),
                 high4 = *reinterpret_cast<const float4*>(sums + kProducts + 4);
    const float2 last = *reinterpret_cast<const float2*>(sums + kProducts + 8);
    const float gram[kGram] = {low4.x, low4.y, low4.z, low4.w, high4.x, high4.y, high4.z, high4.w, last.x, last.y};
    const float inverse_width = 1.f / static_cast<float>(p.sizes.d);
    map_rho = rsqrtf((gram[0] + gram[4] + gram[7] + gram[9]) * (0.25f * inverse_width) + p.map_eps);
    const float mine = sigmoid(s * map_rho * sums[lane % 4] + b);
#pragma unroll
    for (int i = 0; i < 4; ++i) a[i] = __shfl_sync(0xffffffffU, mine, (lane & ~3) + i);
    float square = 0.f;
    int k = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = i; j < 4; ++j, ++k) square += (i == j ? 1.f : 2.f) * a[i] * a[j] * gram[k];
    }
    rho = p.norm ? rsqrtf(fmaxf(square, 0.f) * inverse_width + p.eps) : 1.f;
  }
};

/// z of the thread's columns in one group.
__device__ __forceinline__ uint4 read_normed(const MhcForwardCuda& p, const Words (&h)[4], const Reading& reading,
                                             int column) {
  Words gain{}, out;
  if (p.gain != nullptr) gain = words(*reinterpret_cast<const uint4*>(static_cast<const bfloat*>(p.gain) + column));
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    float a = 0.f, b = 0.f;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      a += reading.a[i] * low(h[i].w[w]);
      b += reading.a[i] * high(h[i].w[w]);
    }
    out.w[w] = pack(a * reading.rho * (p.gain != nullptr ? low(gain.w[w]) : 1.f),
                    b * reading.rho * (p.gain != nullptr ? high(gain.w[w]) : 1.f));
  }
  return vector(out);
}

}  // namespace siamese::kernels
