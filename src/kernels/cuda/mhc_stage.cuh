// How the rows, records and e of a tile of 8 tokens come to a block of mhc_backward.cu: 128 columns of the four
// streams.
#pragma once

#include "kernels/cuda/async.cuh"
#include "kernels/cuda/mhc.h"
#include "kernels/cuda/mhc_tile.cuh"

namespace siamese::kernels::write_back {

constexpr int kWarps = 4, kThreads = 32 * kWarps, kBlockColumns = kWarps * kTileColumns;
constexpr int kRecord = 28, kColumns = 24;
constexpr int kRows = 10;     // H', G, gz, r; then gH' in the place of G and gr in that of r
constexpr int kStride = 320;  // bytes from token to token: rows of 256, and no two lanes of a token pair meet in a bank

struct alignas(16) Stage {
  char rows[kRows][kTileTokens][kStride];
  float records[kTileTokens][kRecord];
  uint32_t e[kTileTokens][kColumns / 2];
  float4 g_b[kWarps][kTileTokens];  // results: sums over a warp's columns
};

/// Which 16 bytes of a tile's rows a thread brings and takes: half a warp a row, so that whole lines of memory are
/// asked for at once.
struct Piece {
  int token, at;  // `at`: bytes
  int64_t column;
  bool exists;
  __device__ explicit Piece(int d)
      : token(static_cast<int>(threadIdx.x) / 16),
        at(static_cast<int>(threadIdx.x) % 16 * 16),
        column(static_cast<int>(blockIdx.x) * kBlockColumns + at / 2),
        exists(column < d) {}
};

/// The tile's rows, records and e on their way; zeros beyond the last token and column.
__device__ __forceinline__ void ask(const MhcBackwardCuda& p, Stage& s, int tile, const Piece& mine) {
  const int tokens = static_cast<int>(p.sizes.tokens), first = tile * kTileTokens, left = tokens - first, d = p.sizes.d;
  const bool real = mine.exists && mine.token < left;
  const int64_t row = static_cast<int64_t>(first + mine.token) * d;
  const auto copy = [&](int slot, const void* from, int64_t element) {
    copy_async16(&s.rows[slot][mine.token][mine.at], static_cast<const bfloat*>(from) + (real ? element : 0), real);
  };
#pragma unroll
  for (int i = 0; i < 4; ++i) copy(i, p.h, 4 * row + i * d + mine.column);
  if (p.g_mixed != nullptr) {
#pragma unroll
    for (int i = 0; i < 4; ++i) copy(4 + i, p.g_mixed, 4 * row + i * d + mine.column);
  }
  if (p.g_z != nullptr) copy(8, p.g_z, row + mine.column);
  if (p.r != nullptr) copy(9, p.r, row + mine.column);
  // 7 pieces of 16 bytes a record, 3 of e: both lie side by side for the tokens of a tile.
  const auto pieces = [&](void* to, const void* from, int of_token, int i) {
    if (i < 0 || i >= of_token * kTileTokens) return;
    const bool exists = i < of_token * left;
    const int64_t at = static_cast<int64_t>(first) * of_token + i;
    copy_async16(static_cast<uint4*>(to) + i, static_cast<const uint4*>(from) + (exists ? at : 0), exists);
  };
  const int thread = static_cast<int>(threadIdx.x);
  pieces(&s.records[0][0], p.records, kRecord / 4, thread);
  pieces(&s.e[0][0], p.e, kColumns / 8, thread - 64);
}

/// One token's record.
struct Record {
  float a_residual[16], a[4], b[4], rho, q, k;  // A' [to][from], a, B
  __device__ explicit Record(const float* from) {
    float v[kRecord];
#pragma unroll
    for (int i = 0; i < kRecord; i += 4) {
      const float4 four = *reinterpret_cast<const float4*>(from + i);
      v[i] = four.x, v[i + 1] = four.y, v[i + 2] = four.z, v[i + 3] = four.w;
    }
#pragma unroll
    for (int i = 0; i < 16; ++i) a_residual[i] = v[i];
#pragma unroll
    for (int i = 0; i < 4; ++i) a[i] = v[16 + i], b[i] = v[20 + i];
    rho = v[24], q = v[25], k = v[26];
  }
};

}  // namespace siamese::kernels::write_back
