// The arithmetic of mhc's forward kernels on a thread's columns: mixing, and reading with what the whole row gave.
#pragma once

#include "kernels/cuda/mhc.h"
#include "kernels/cuda/mhc_tile.cuh"
#include "kernels/mhc_maps.h"

namespace siamese::kernels {

// Sums over a token's row: 24 products with the weights, 10 of the streams with one another (i <= j), 2 unused.
constexpr int kProducts = 24, kGram = 10, kSums = 36;
constexpr int kMaps = 20;  // A [to][from], B

/// H' = A H + B r of one word (two columns) of the streams and r.
__device__ __forceinline__ void mix(const uint32_t (&in)[5], const float (&maps)[kMaps], uint32_t (&out)[4]) {
#pragma unroll
  for (int to = 0; to < 4; ++to) {
    float a = 0.f, b = 0.f;
#pragma unroll
    for (int from = 0; from < 5; ++from) {
      const float factor = maps[from < 4 ? 4 * to + from : 16 + to];
      a += factor * low(in[from]);
      b += factor * high(in[from]);
    }
    out[to] = pack(a, b);
  }
}

/// The streams' products with one another, by the tensor cores: rows are two streams of 8 tokens, columns one stream of
/// the same tokens, and of each 8 x 8 result the diagonal is wanted. Five such products have the ten pairs i <= j.
struct Gram {
  float c[5][4] = {};

  /// Two words of a lane's columns in each stream.
  __device__ __forceinline__ void add(const uint32_t (&x)[4], const uint32_t (&y)[4]) {
    const auto product = [&](float(&to)[4], int upper, int lower, int column) {
      mma16(to, x[upper], x[lower], y[upper], y[lower], x[column], y[column]);
    };
    product(c[0], 0, 1, 0);
    product(c[1], 2, 3, 0);
    product(c[2], 1, 2, 1);
    product(c[3], 1, 3, 3);
    product(c[4], 2, 3, 2);
  }
  /// The ten sums of token g, and two zeros, to a 16-byte aligned address of that token: lane 4g + g/2 has them.
  __device__ __forceinline__ void store(float* to, int g, int q) const {
    if (q != g / 2) return;
    const auto upper = [&](int i) { return (g & 1) != 0 ? c[i][1] : c[i][0]; };
    const auto lower = [&](int i) { return (g & 1) != 0 ? c[i][3] : c[i][2]; };
    float4* const four = reinterpret_cast<float4*>(to);
    four[0] = make_float4(upper(0), lower(0), upper(1), lower(1));  // 00 01 02 03
    four[1] = make_float4(upper(2), lower(2), upper(3), upper(4));  // 11 12 13 22
    four[2] = make_float4(lower(4), lower(3), 0.f, 0.f);            // 23 33
  }
};

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
