// mhc's gradients of the streams and of r, with the maps' gradients known (records, e). Every warp owns 32 columns of
// the four streams for all tokens of its part, so that its piece of the weights stays in shared memory and its piece of
// D = Σ_tokens H' eᵀ in registers (96 of them). Per 8 tokens:
//   e wᵀ   tokens x 24 times 24 x 32 columns, a product for each stream
//   gH' = A'ᵀ G + a ⊗ gh + e wᵀ - k H';  gr = Σ B_i gH'_i;  gB_i: the sum over the block's columns, added up later
//   D      H' transposed (columns x 8 tokens) times e
// The tokens are walked backwards: the last ones of mhc_dots_cuda, which reads the same rows, are still in the cache.
// Rows come and go by the block, 256 bytes at a time. With 64 bytes a warp, asked for and written apart, the backward
// step of 32,768 tokens (d = 1024, H200) took 475 µs instead of 438, and 509 where a warp asked two tiles ahead; with
// gB's sums by block it takes 431.
#include "kernels/cuda/hyper_launch.cuh"
#include "kernels/cuda/mhc_stage.cuh"

namespace siamese::kernels {
namespace {

using namespace write_back;

constexpr int kStages = 2;  // tiles on their way or at work

struct Shared {
  uint4 weights[kWarps][12][32];
  Stage stages[kStages];
};

__global__ void __launch_bounds__(kThreads) write_backward_kernel(const MhcBackwardCuda p, int tiles) {
  extern __shared__ uint4 dynamic_memory[];
  const int d = p.sizes.d, parts = static_cast<int>(gridDim.y);
  const Tile at(static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x / 32), d);
  const Piece mine(d);
  Shared& shared = *reinterpret_cast<Shared*>(dynamic_memory);
  const uint4(&weights)[12][32] = shared.weights[at.warp];
  const int g = at.token, q = at.quarter;
  const bool has_gain = p.gain != nullptr;
  Words gain{};
  if (at.exists) {
    for (int i = 0; i < 12; ++i)
      shared.weights[at.warp][i][at.lane] = static_cast<const uint4*>(p.packed)[(at.group * 12 + i) * 32 + at.lane];
    if (has_gain) gain = words(*reinterpret_cast<const uint4*>(static_cast<const bfloat*>(p.gain) + at.column));
  }
  float sums[4][2][3][4] = {};  // D: stream, words 2m and 2m+1, products 8t … 8t+7

  int tile = tiles - 1 - static_cast<int>(blockIdx.y), ahead = tile, stage = 0;
  const auto ask_next = [&](int to) {
    if (ahead >= 0) ask(p, shared.stages[to], ahead, mine);
    copy_async_commit();
    ahead -= parts;
  };
  for (int i = 0; i < kStages - 1; ++i) ask_next(i);
  for (; tile >= 0; tile -= parts) {
    copy_async_wait_but<kStages - 2>();
    __syncthreads();  // the tile is here, and nobody needs the one before any more
    Stage& s = shared.stages[stage];
    ask_next(stage == 0 ? kStages - 1 : stage - 1);
    stage = stage == kStages - 1 ? 0 : stage + 1;
    const auto place = [&](int slot) { return reinterpret_cast<uint4*>(&s.rows[slot][g][64 * at.warp + 16 * q]); };
    Words h[4], mixed[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      h[i] = words(*place(i));
      mixed[i] = p.g_mixed != nullptr ? words(*place(4 + i)) : Words{};
    }
    const Words g_z = p.g_z != nullptr ? words(*place(8)) : Words{}, r = p.r != nullptr ? words(*place(9)) : Words{};
    const uint32_t e[3] = {s.e[g][q], s.e[g][q + 4], s.e[g][q + 8]};  // products 2q, 2q+1, + 8, + 16
    const Record record(s.records[g]);

    uint32_t e_columns[3];
#pragma unroll
    for (int t = 0; t < 3; ++t) e_columns[t] = transpose8x8(e[t]);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        const uint32_t a0 = transpose8x8(h[i].w[2 * m]), a1 = transpose8x8(h[i].w[2 * m + 1]);
#pragma unroll
        for (int t = 0; t < 3; ++t) mma8(sums[i][m][t], a0, a1, e_columns[t]);
      }
    }

    float g_b[4] = {};
    Words g_r;
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const uint4 v[3] = {weights[3 * w][at.lane], weights[3 * w + 1][at.lane], weights[3 * w + 2][at.lane]};
      const uint32_t b[12] = {v[0].x, v[0].y, v[0].z, v[0].w, v[1].x, v[1].y,
                              v[1].z, v[1].w, v[2].x, v[2].y, v[2].z, v[2].w};
      const uint32_t before[4] = {mixed[0].w[w], mixed[1].w[w], mixed[2].w[w], mixed[3].w[w]};
      float read[2] = {}, to_r[2] = {};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        read[0] += record.a[i] * low(h[i].w[w]);
        read[1] += record.a[i] * high(h[i].w[w]);
      }
      read[0] = record.rho * low(g_z.w[w]) * (has_gain ? low(gain.w[w]) : 1.f) - record.q * read[0];  // gh
      read[1] = record.rho * high(g_z.w[w]) * (has_gain ? high(gain.w[w]) : 1.f) - record.q * read[1];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float c[4] = {};  // c[0], c[1]: this token's two columns; the other rows are empty
        mma16(c, e[0], 0, e[1], 0, b[3 * i], b[3 * i + 1]);
        mma8(c, e[2], 0, b[3 * i + 2]);
        float x = c[0] + record.a[i] * read[0] - record.k * low(h[i].w[w]);
        float y = c[1] + record.a[i] * read[1] - record.k * high(h[i].w[w]);
#pragma unroll
        for (int to = 0; to < 4; ++to) {
          x += record.a_residual[4 * to + i] * low(before[to]);
          y += record.a_residual[4 * to + i] * high(before[to]);
        }
        to_r[0] += record.b[i] * x;
        to_r[1] += record.b[i] * y;
        g_b[i] += x * low(r.w[w]) + y * high(r.w[w]);
        mixed[i].w[w] = pack(x, y);
      }
      g_r.w[w] = pack(to_r[0], to_r[1]);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      *place(4 + i) = vector(mixed[i]);
      g_b[i] += __shfl_xor_sync(0xffffffffU, g_b[i], 1);
      g_b[i] += __shfl_xor_sync(0xffffffffU, g_b[i], 2);
    }
    *place(9) = vector(g_r);
    if (q == 0)
      s.g_b[at.warp][g] = at.exists ? make_float4(g_b[0], g_b[1], g_b[2], g_b[3]) : make_float4(0.f, 0.f, 0.f, 0.f);
    __syncthreads();  // results are in their places
    const int64_t token = static_cast<int64_t>(tile) * kTileTokens + mine.token;
    if (mine.exists && token < p.sizes.tokens) {
      const auto put = [&](int slot, void* to, int64_t element) {
        *reinterpret_cast<uint4*>(static_cast<bfloat*>(to) + element + mine.column) =
            *reinterpret_cast<const uint4*>(&s.rows[slot][mine.token][mine.at]);
      };
#pragma unroll
      for (int i = 0; i < 4; ++i) put(4 + i, p.g_h, (4 * token + i) * d);
      if (p.r != nullptr) put(9, p.g_r, token * d);
      if (p.r != nullptr && mine.at == 0) {
        float4 sum = s.g_b[0][mine.token];
#pragma unroll
        for (int w = 1; w < kWarps; ++w) {
          const float4 v = s.g_b[w][mine.token];
          sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
        }
        reinterpret_cast<float4*>(p.g_b_sums)[token * gridDim.x + blockIdx.x] = sum;
      }
    }
    __syncwarp();
  }

  if (!at.exists) return;
  float* const part = p.weight_sums + static_cast<int64_t>(blockIdx.y) * 4 * d * kColumns;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int m = 0; m < 2; ++m) {
#pragma unroll
      for (int t = 0; t < 3; ++t) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {  // rows g and g + 8 of the operand: words 2m and 2m + 1
          const int row = i * d + at.group * kTileColumns + tile_column(g, 2 * m + half);
          *reinterpret_cast<float2*>(part + static_cast<int64_t>(row) * kColumns + 8 * t + 2 * q) =
              make_float2(sums[i][m][t][2 * half], sums[i][m][t][2 * half + 1]);
        }
      }
    }
  }
}

static_assert(kBlockColumns == 128, "MhcSizes::slices()");
int tiles_of(const MhcSizes& z) { return static_cast<int>((z.tokens + kTileTokens - 1) / kTileTokens); }

}  // namespace

cudaError_t mhc_weight_parts(const MhcSizes& sizes, int* parts) {
  if (!sizes.tiles()) return cudaErrorInvalidValue;
  int blocks = 0;
  if (const cudaError_t e = resident_blocks(write_backward_kernel, kThreads, sizeof(Shared), INT32_MAX, &blocks);
      e != cudaSuccess)
    return e;
  const int wanted = blocks / sizes.slices(), tiles = tiles_of(sizes);
  *parts = wanted < 1 ? 1 : wanted < tiles ? wanted : tiles;
  return cudaSuccess;
}

cudaError_t mhc_write_backward_cuda(const MhcBackwardCuda& call, const MhcParts& parts, cudaStream_t stream) {
  if (!call.sizes.tiles() || call.sizes.tokens > INT32_MAX / 16) return cudaErrorInvalidValue;
  if (call.sizes.tokens == 0) return cudaSuccess;
  const dim3 grid(static_cast<unsigned>(call.sizes.slices()), static_cast<unsigned>(parts.weight));
  write_backward_kernel<<<grid, kThreads, sizeof(Shared), stream>>>(call, tiles_of(call.sizes));
  return cudaGetLastError();
}

}  // namespace siamese::kernels
