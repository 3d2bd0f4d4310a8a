// The parameters' gradients of mhc from the partial sums of the backward kernels, added in order, in one launch: blocks
// for D (gφ = γ_map D, gγ_map = Σ_c φ_c D_c), for the gain, for b and s, and for gB of the tokens.
#include "kernels/cuda/hyper_launch.cuh"
#include "kernels/cuda/mhc.h"
#include "kernels/cuda/vec.cuh"
#include "kernels/mhc_maps.h"

namespace siamese::kernels {
namespace {

constexpr int kThreads = 256, kSlices = kThreads / 32;

template <class S>
__device__ void put(void* to, int64_t at, float v) {
  if (to != nullptr) static_cast<S*>(to)[at] = from_float<S>(v);
}

/// A thread for each weight of kThreads / columns rows.
template <class S, int N>
__device__ void weights(const MhcBackwardCuda& p, int parts, const MhcSumsCuda& out, int block) {
  constexpr int kColumns = kMhcColumns<N>, kRows = kThreads / kColumns;
  __shared__ float products[kRows][kColumns];
  const int of = static_cast<int>(threadIdx.x) / kColumns, c = static_cast<int>(threadIdx.x) % kColumns;
  const int64_t rows = static_cast<int64_t>(N) * p.sizes.d, row = static_cast<int64_t>(block) * kRows + of;
  const bool exists = of < kRows && row < rows;
  if (exists) {
    float sum = 0.f;
#pragma unroll 8
    for (int i = 0; i < parts; ++i) sum += p.weight_sums[(i * rows + row) * kColumns + c];
    const int width = c < 2 * N ? N : N * N, first = c < N ? 0 : c < 2 * N ? N : 2 * N;
    const void* const phi = c < N ? p.parameters.phi[0] : c < 2 * N ? p.parameters.phi[1] : p.parameters.phi[2];
    void* const g_phi = c < N ? out.g_phi[0] : c < 2 * N ? out.g_phi[1] : out.g_phi[2];
    const void* const map_gain = p.parameters.map_gain;
    const float gain = map_gain != nullptr ? to_float(static_cast<const S*>(map_gain)[row]) : 1.f;
    products[of][c] = to_float(static_cast<const S*>(phi)[row * width + c - first]) * sum;
    put<S>(g_phi, row * width + c - first, gain * sum);
  }
  __syncthreads();
  if (!exists || c != 0) return;
  float sum = 0.f;
  for (int i = 0; i < kColumns; ++i) sum += products[of][i];
  put<S>(out.g_map_gain, row, sum);
}

/// Sums of rows [parts, width] over the parts, for the 32 columns from `first` on; the result is thread < 32's.
__device__ float over_parts(const float* rows, int parts, int width, int first) {
  __shared__ float slices[kSlices][32];
  const int lane = static_cast<int>(threadIdx.x) % 32, slice = static_cast<int>(threadIdx.x) / 32;
  float sum = 0.f;
  if (first + lane < width) {
#pragma unroll 8
    for (int i = slice; i < parts; i += kSlices) sum += rows[static_cast<int64_t>(i) * width + first + lane];
  }
  slices[slice][lane] = sum;
  __syncthreads();
  sum = 0.f;
  for (int i = 0; i < kSlices; ++i) sum += slices[i][lane];
  return sum;
}

/// gB over the slices of a row, a thread each.
__device__ void written(const MhcBackwardCuda& p, int slices, int block) {
  const int64_t i = static_cast<int64_t>(block) * kThreads + threadIdx.x;
  if (i >= 4 * p.sizes.tokens) return;
  const float* const from = p.g_b_sums + i / 4 * slices * 4 + i % 4;
  float sum = 0.f;
#pragma unroll 8
  for (int k = 0; k < slices; ++k) sum += from[4 * k];
  p.g_b[i] = sum;
}

struct Blocks {
  int weights, gain, written, slices;
};

template <class S, int N>
__global__ void __launch_bounds__(kThreads)
    sums_kernel(const MhcBackwardCuda p, MhcParts parts, const MhcSumsCuda out, Blocks blocks) {
  int block = static_cast<int>(blockIdx.x);
  if (block < blocks.weights) return weights<S, N>(p, parts.weight, out, block);
  block -= blocks.weights;
  if (block < blocks.gain) {
    const int column = 32 * block + static_cast<int>(threadIdx.x);
    const float sum = over_parts(p.gain_sums, parts.gain, p.sizes.d, 32 * block);
    if (threadIdx.x < 32 && column < p.sizes.d) put<S>(out.g_gain, column, sum);
    return;
  }
  block -= blocks.gain;
  if (block < blocks.written) return written(p, blocks.slices, block);
  constexpr int kColumns = kMhcColumns<N>;
  const float sum = over_parts(p.map_sums, parts.map, kColumns + 3, 0);
  const int c = static_cast<int>(threadIdx.x);
  if (c < N) put<S>(out.g_b[0], c, sum);
  if (c >= N && c < 2 * N) put<S>(out.g_b[1], c - N, sum);
  if (c >= 2 * N && c < kColumns) put<S>(out.g_b[2], c - 2 * N, sum);
  if (c == kColumns) put<S>(out.g_s[0], 0, sum);
  if (c == kColumns + 1) put<S>(out.g_s[1], 0, sum);
  if (c == kColumns + 2) put<S>(out.g_s[2], 0, sum);
}

}  // namespace

cudaError_t mhc_sums_cuda(const MhcBackwardCuda& call, const MhcParts& parts, const MhcSumsCuda& out,
                          cudaStream_t stream) {
  const MhcSizes& z = call.sizes;
  return with_hyper_types(z.bf16, z.n, z.d, z.tokens, [&](auto type, auto n) {
    constexpr int N = decltype(n)::value, kRows = kThreads / kMhcColumns<N>;
    const Blocks blocks{(N * z.d + kRows - 1) / kRows, (z.d + 31) / 32,
                        call.g_b_sums != nullptr ? static_cast<int>((4 * z.tokens + kThreads - 1) / kThreads) : 0,
                        z.slices()};
    const unsigned all = static_cast<unsigned>(blocks.weights + blocks.gain + blocks.written + 1);
    sums_kernel<decltype(type), N><<<all, kThreads, 0, stream>>>(call, parts, out, blocks);
    return cudaGetLastError();
  });
}

}  // namespace siamese::kernels
