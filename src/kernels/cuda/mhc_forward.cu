// mhc's forward step on Hopper, one pass over memory: a cluster of d/256 blocks takes 8 tokens at a time, a block 256
// columns of them, a warp 64, a thread twice 8 columns of all four streams of one token. The weights of a block's
// columns stay in its shared memory (48 kB); what a token needs of its whole row is exchanged through the cluster: the
// 24 products, by the tensor cores, and the products of the streams with one another, which give both norms at once:
//   ρ_map from Σ H_i·H_i,   h·h = Σ a_i a_j H_i·H_j
// (for bf16 streams the rounding of H' outweighs what cancels in that sum). The next 8 tokens are on their way to
// shared memory meanwhile.
#include "kernels/cuda/async.cuh"
#include "kernels/cuda/cluster.cuh"
#include "kernels/cuda/cluster_launch.h"
#include "kernels/cuda/early_launch.cuh"
#include "kernels/cuda/mhc_read.cuh"
#include "kernels/cuda/mhc_tile.cuh"

namespace siamese::kernels {
namespace {

constexpr int kWarps = 4, kThreads = 32 * kWarps, kGroups = 2;  // groups of 32 columns a warp

struct Shared {
  uint4 weights[kWarps][kGroups][12][32];
  uint4 rows[kGroups][5][kThreads];          // the four streams and r: a thread's own
  float maps[kWarps][kTileTokens][kMaps];    // a warp's own
  float warps[kWarps][kTileTokens * kSums];  // sums over a warp's columns
  float block[2][kTileTokens * kSums];       // over the block's, for the cluster to read; two in turn
  float cluster[kTileTokens * kSums];        // over the cluster's
};

struct Place {
  Tile tile[kGroups];
  int lane, warp, token, quarter;
  __device__ Place(int first_group, int d)
      : tile{Tile(first_group, d), Tile(first_group + 1, d)},
        lane(tile[0].lane),
        warp(tile[0].warp),
        token(tile[0].token),
        quarter(tile[0].quarter) {}
};

/// The rows and maps of 8 tokens on their way: zeros beyond the last token or column; what is absent stays as it was.
__device__ __forceinline__ void ask(const MhcForwardCuda& p, Shared& s, int token0, const Place& at) {
  const int tokens = static_cast<int>(p.sizes.tokens), token = token0 + at.token;
  const bfloat* const h = static_cast<const bfloat*>(p.h);
  const bfloat* const r = static_cast<const bfloat*>(p.r);
#pragma unroll
  for (int j = 0; j < kGroups; ++j) {
    const bool real = at.tile[j].exists && token < tokens;
    const bfloat* const row = real ? h + token * p.token_stride + at.tile[j].column : h;
#pragma unroll
    for (int i = 0; i < 4; ++i) copy_async16(&s.rows[j][i][threadIdx.x], row + i * p.stream_stride, real);
    if (r != nullptr)
      copy_async16(&s.rows[j][4][threadIdx.x],
                   real ? r + static_cast<int64_t>(token) * p.sizes.d + at.tile[j].column : r, real);
  }
  // 16 bytes a lane: row l % 4 of token l / 4's A; lane l < 8: token l's B.
  if (p.residual != nullptr) {
    const bool exists = token < tokens;
    copy_async16(&s.maps[at.warp][at.token][4 * at.quarter],
                 p.residual + (exists ? static_cast<int64_t>(token0) * 16 + 4 * at.lane : 0), exists);
  }
  if (r != nullptr && at.lane < kTileTokens) {
    const bool exists = token0 + at.lane < tokens;
    copy_async16(&s.maps[at.warp][at.lane][16], p.write + (exists ? 4 * static_cast<int64_t>(token0 + at.lane) : 0),
                 exists);
  }
}

__global__ void __launch_bounds__(kThreads, 2) forward_kernel(const MhcForwardCuda p, int tiles) {
  extern __shared__ uint4 dynamic_memory[];
  Shared& s = *reinterpret_cast<Shared*>(dynamic_memory);
  const int d = p.sizes.d;
  const unsigned ranks = static_cast<unsigned>((d + 255) / 256), rank = cluster_rank();
  const int cluster = static_cast<int>(blockIdx.x / ranks), clusters = static_cast<int>(gridDim.x / ranks);
  const Place at((static_cast<int>(rank) * kWarps + static_cast<int>(threadIdx.x / 32)) * kGroups, d);
  const int g = at.token, q = at.quarter;  // of the operands' layout, see mma.cuh
#pragma unroll
  for (int j = 0; j < kGroups; ++j) {
    for (int i = 0; i < 12; ++i)
      s.weights[at.warp][j][i][at.lane] =
          at.tile[j].exists ? static_cast<const uint4*>(p.packed)[(at.tile[j].group * 12 + i) * 32 + at.lane]
                            : make_uint4(0, 0, 0, 0);
    s.rows[j][4][threadIdx.x] = make_uint4(0, 0, 0, 0);
  }
  // Without a map the streams stay: the identity, and nothing written.
  for (int i = at.lane; i < kTileTokens * kMaps; i += 32)
    s.maps[at.warp][i / kMaps][i % kMaps] = i % kMaps < 16 && i % kMaps % 5 == 0 ? 1.f : 0.f;
  const float s_read = to_float(*static_cast<const bfloat*>(p.parameters.s[0])),
              b_read = to_float(static_cast<const bfloat*>(p.parameters.b[0])[q]);
  __syncwarp();

  int turn = 0;
  ask(p, s, cluster * kTileTokens, at);
  for (int tile = cluster; tile < tiles; tile += clusters) {
    const int token0 = tile * kTileTokens, token = token0 + g;
    const bool real = token < static_cast<int>(p.sizes.tokens);
    copy_async_wait();
    __syncwarp();
    Words h[kGroups][4];  // H'
    Gram gram;
    {
      Words in[kGroups][5];
      float maps[kMaps];
#pragma unroll
      for (int i = 0; i < 5; ++i) {
#pragma unroll
        for (int j = 0; j < kGroups; ++j) in[j][i] = words(s.rows[j][i][threadIdx.x]);
        const float4 four = *reinterpret_cast<const float4*>(&s.maps[at.warp][g][4 * i]);
        maps[4 * i] = four.x, maps[4 * i + 1] = four.y, maps[4 * i + 2] = four.z, maps[4 * i + 3] = four.w;
      }
      __syncwarp();
      ask(p, s, token0 + clusters * kTileTokens, at);
#pragma unroll
      for (int j = 0; j < kGroups; ++j) {
        uint32_t mixed[4][4];  // word, stream
#pragma unroll
        for (int w = 0; w < 4; ++w) {
          const uint32_t words[5] = {in[j][0].w[w], in[j][1].w[w], in[j][2].w[w], in[j][3].w[w], in[j][4].w[w]};
          mix(words, maps, mixed[w]);
#pragma unroll
          for (int i = 0; i < 4; ++i) h[j][i].w[w] = mixed[w][i];
        }
        gram.add(mixed[0], mixed[1]);
        gram.add(mixed[2], mixed[3]);
      }
    }

    // Products as [24 x 8 tokens]: the weights are the rows (16 and 8 of them), H' is the columns.
    float first[4] = {}, last[4] = {};
#pragma unroll
    for (int j = 0; j < kGroups; ++j) {
      bfloat* const out = static_cast<bfloat*>(p.h_out) + static_cast<int64_t>(token) * 4 * d + at.tile[j].column;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const uint4 w0 = s.weights[at.warp][j][3 * i][at.lane], w1 = s.weights[at.warp][j][3 * i + 1][at.lane],
                    w2 = s.weights[at.warp][j][3 * i + 2][at.lane];
        const Words& x = h[j][i];
        if (real && at.tile[j].exists) *reinterpret_cast<uint4*>(out + i * d) = vector(x);
        mma16(first, w0.x, w1.x, w0.y, w1.y, x.w[0], x.w[1]);
        mma16(last, w2.x, 0, w2.y, 0, x.w[0], x.w[1]);
        mma16(first, w0.z, w1.z, w0.w, w1.w, x.w[2], x.w[3]);
        mma16(last, w2.z, 0, w2.w, 0, x.w[2], x.w[3]);
      }
    }
    float* const mine = s.warps[at.warp];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      mine[(2 * q + j) * kSums + g] = first[j];
      mine[(2 * q + j) * kSums + 8 + g] = first[2 + j];
      mine[(2 * q + j) * kSums + 16 + g] = last[j];
    }
    gram.store(mine + g * kSums + kProducts, g, q);
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < kTileTokens * kSums; i += kThreads) {
      float sum = 0.f;
#pragma unroll
      for (int w = 0; w < kWarps; ++w) sum += s.warps[w][i];
      s.block[turn][i] = sum;
    }
    cluster_barrier();
    for (int i = static_cast<int>(threadIdx.x); i < kTileTokens * kSums; i += kThreads) {
      float sum = 0.f;
      for (unsigned other = 0; other < ranks; ++other) sum += cluster_read(&s.block[turn][i], other);
      s.cluster[i] = sum;
    }
    turn ^= 1;
    __syncthreads();

    const float* const sums = s.cluster + g * kSums;
    const Reading reading(p, sums, s_read, b_read, at.lane);
#pragma unroll
    for (int j = 0; j < kGroups; ++j) {
      const int column = at.tile[j].column;
      if (real && at.tile[j].exists)
        *reinterpret_cast<uint4*>(static_cast<bfloat*>(p.z) + static_cast<int64_t>(token) * d + column) =
            read_normed(p, h[j], reading, column);
    }
    if (real && rank == 0 && at.warp == 0) {
      float4* const saved = reinterpret_cast<float4*>(p.saved) + static_cast<int64_t>(token) * 7;
      for (int i = q; i < 6; i += 4) {
        const float4 v = reinterpret_cast<const float4*>(sums)[i];
        const float f = reading.map_rho;
        saved[i] = make_float4(f * v.x, f * v.y, f * v.z, f * v.w);
      }
      if (q == 2) saved[6] = make_float4(reading.map_rho, reading.rho, 0.f, 0.f);
    }
    __syncwarp();
  }
  cluster_barrier();  // nobody leaves while its sums may still be read
}

}  // namespace

bool mhc_forward_runs(const MhcSizes& sizes) { return sizes.tiles() && built_for_hopper(); }

cudaError_t mhc_forward_cuda(const MhcForwardCuda& call, cudaStream_t stream) {
  if (!mhc_forward_runs(call.sizes) || call.sizes.tokens > INT32_MAX / 16) return cudaErrorInvalidValue;
  if (call.sizes.tokens == 0) return cudaSuccess;
  const int ranks = (call.sizes.d + 255) / 256;
  const int tiles = static_cast<int>((call.sizes.tokens + kTileTokens - 1) / kTileTokens);
  ClusterLaunch launch(ranks, kThreads, static_cast<int>(sizeof(Shared)), stream);
  int resident = 0;
  if (const cudaError_t e = launch.resident(forward_kernel, &resident); e != cudaSuccess) return e;
  return launch.run(forward_kernel, resident < 1 ? 1 : resident < tiles ? resident : tiles, call, tiles);
}

}  // namespace siamese::kernels
