// Launchers of the hyper-connections' kernels: pointers, sizes, a stream. ops/hyper_step_cpu.cpp has the formulas and
// the names. Everything is one type, bf16 or fp32; statistics, maps and sums are fp32. n is 2 or 4, d a multiple of 8
// up to 2048, every pointer 16-byte aligned.
//
// For 32,768 tokens a row of d = 1024 in bf16 is 67 MB: 16.4 µs at 4.1 TB/s (a device copy on an H200). The least a
// sub-layer can move, and what these kernels move:
//   forward   read H, r; write H', z                            2n + 2 rows
//   backward  read H', gradient of A' H', gz, r; write gH', gr  3n + 3 rows, and 0.3 of partial sums
// hc_dynamic with n = 2: 15.3 rows, 251 µs. Its 8 dot products cost 8 k multiply-adds a token forward and 16 k
// backward: CUDA cores suffice. Of the 2,700 and 4,000 instructions that a multiprocessor issues while a token's bytes
// pass, the kernels use 1,900 and 2,900 (counted in PTX); with 8 columns a thread instead of 16 it would be 2,450 and
// 3,500, most of it what every warp does again for its token. The form training runs through, two streams in bf16, has
// kernels that wait less (hyper_tile.h).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace siamese::kernels {

/// Where the read map a comes from: ones, the parameters, parameters and streams, or `read`.
enum class HyperRead { sum, fixed, dynamic, given };

struct HyperForwardCuda {
  bool bf16 = false;
  int64_t tokens = 0;
  int n = 0, d = 0;
  HyperRead kind = HyperRead::sum;
  bool norm = true;
  float eps = 0, map_eps = 0;
  const void* h = nullptr;  // H; the strides are in elements, streams may coincide
  int64_t token_stride = 0, stream_stride = 0;
  const float *residual = nullptr, *write = nullptr;  // A [tokens, n, n], B [tokens, n]; null: H stays
  const void* r = nullptr;                            // [tokens, d]; null: nothing to write
  const void *gain = nullptr, *map_gain = nullptr;    // [d]; null: ones
  const void* maps[8] = {};                           // alpha_m, alpha_r, beta, w_m, w_r, w_b, s_alpha, s_beta
  const float* read = nullptr;                        // [tokens, n]: given
  // results; null: not wanted
  void *h_out = nullptr, *z = nullptr;
  float *residual_out = nullptr, *write_out = nullptr;  // [tokens, n, n], [tokens, n]
  float* squares = nullptr;                             // [tokens]: Σ H'²
  float* saved = nullptr;                               // [tokens, saved_width], see ops/hyper_step.h
  int saved_width = 0, saved_rho = 0;                   // saved_rho: where rho of N stands
};
cudaError_t hyper_forward_cuda(const HyperForwardCuda& call, cudaStream_t stream);

struct HyperBackwardCuda {
  bool bf16 = false;
  int64_t tokens = 0;
  int n = 0, d = 0;
  HyperRead kind = HyperRead::sum;  // not given
  bool norm = true;
  const void* h = nullptr;                          // H' [tokens, n, d]
  const void *g_mixed = nullptr, *g_z = nullptr;    // null: zero
  const float* g_write = nullptr;                   // of B'; null: zero
  const float* write = nullptr;                     // B
  const void* r = nullptr;                          // null: absent, as are g_r and g_b
  const void *gain = nullptr, *map_gain = nullptr;  // null: ones
  const void* maps[8] = {};
  const float* saved = nullptr;
  int saved_width = 0, saved_rho = 0;
  void *g_h = nullptr, *g_r = nullptr;         // results
  float* g_b = nullptr;                        // of B
  float *columns = nullptr, *lanes = nullptr;  // [parts, n+3, d], [parts, 64]: sums over tokens, added up below
};
/// How many parts the tokens are cut in: depends on the sizes and the GPU alone.
cudaError_t hyper_backward_parts(const HyperBackwardCuda& call, int* parts);
cudaError_t hyper_backward_cuda(const HyperBackwardCuda& call, int parts, cudaStream_t stream);

/// The gradients of the parameters from the sums of all parts.
struct HyperSumsCuda {
  void *g_gain = nullptr, *g_map_gain = nullptr;  // null: not wanted
  void* g_maps[8] = {};                           // as many as the kind has
};
cudaError_t hyper_sums_cuda(const HyperBackwardCuda& call, int parts, const HyperSumsCuda& out, cudaStream_t stream);

}  // namespace siamese::kernels
