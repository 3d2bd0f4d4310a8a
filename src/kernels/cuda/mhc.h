// Launchers of mhc's kernels: pointers, sizes, a stream. Formulas and names: ops/hyper_step_cpu.cpp; n is 2 or 4.
//
// The maps take 24 products (n = 4) of a row of 4d: 98 k multiply-adds a token of d = 1024, 3.2 G a sub-layer of 32,768
// tokens, and twice that in the backward pass. On CUDA cores that is 3,100 instructions a token, each with an operand
// to load, while a multiprocessor issues 4,450 in the time the bytes take: so the tensor cores do it, in bf16, inside
// the passes over memory. A row of d costs 16.4 µs there (kernels/cuda/hyper.h). In rows, n = 4:
//   forward   mhc_forward_cuda          read H, r, write H', z; weights in the shared memory of a cluster   10
//             mhc_maps_cuda             Sinkhorn: 20 rounds in registers, a thread a token, 8 µs             0.5
//             mhc_forward_by_clusters   for mhc_forward_cuda, at widths and numbers of tokens of training   10
//   backward  mhc_dots_cuda             read H', G, gz: the sums u, v, G H'ᵀ                                 9.2
//             mhc_maps_backward_cuda    Sinkhorn back, 17 µs                                                 1
//             mhc_write_backward_cuda   read H', G, gz, r, write gH', gr; D stays in registers              15.6
//             mhc_sums_cuda             D of all blocks, 17 µs                                               1
// 37 rows, 610 µs at the speed of a copy; in a step of lm-400m on an H200 they take 690 (225, 8, 148, 17, 275, 17). The
// products as calls of their own would read H' three times more and write the term of gH' once: 54 rows. The
// tensor-core kernels want bf16, n = 4 and d a multiple of 32, the forward one Hopper; elsewhere hyper_forward_cuda
// mixes and reads, mhc_mixed_backward_cuda writes back, and the products are the caller's.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace siamese::kernels {

struct MhcSizes {
  bool bf16 = false;
  int64_t tokens = 0;
  int n = 0, d = 0;
  /// Columns of the products.
  int columns() const { return 2 * n + n * n; }
  /// Floats a token of `dots` (G H'ᵀ, u, v) and of `records` (A' [to][from], a, B, ρ, q, k, 0).
  int dots() const { return n * n + 2 * n; }
  int record() const { return n * n + 2 * n + 4; }
  /// Whether the tensor-core kernels serve these sizes.
  bool tiles() const { return bf16 && n == 4 && d % 32 == 0 && d <= 2048; }
  /// Blocks across a row of d in mhc_write_backward_cuda, 128 columns each.
  int slices() const { return (d + 127) / 128; }
};

/// Parameters of the maps: phi [n d, n], [n d, n], [n d, n n]; b [n], [n], [n n]; s.
struct MhcParametersCuda {
  const void* phi[3] = {};
  const void* b[3] = {};
  const void* s[3] = {};
  const void* map_gain = nullptr;  // [n d]; null: ones
};

/// The weights γ_map φ in the order in which the tensor cores' operands lie in registers: 3·n·d/32 pieces of 512 bytes,
/// [group of 32 columns of d][3n][lane], for the forward or the backward kernel.
cudaError_t mhc_pack_cuda(const MhcSizes& sizes, const MhcParametersCuda& p, bool forward, void* packed,
                          cudaStream_t stream);

struct MhcForwardCuda {
  MhcSizes sizes;
  MhcParametersCuda parameters;
  bool norm = true;
  float eps = 0, map_eps = 0;
  const void* h = nullptr;  // strides in elements
  int64_t token_stride = 0, stream_stride = 0;
  const float *residual = nullptr, *write = nullptr;
  const void *r = nullptr, *gain = nullptr, *packed = nullptr;
  void *h_out = nullptr, *z = nullptr;
  float* saved = nullptr;  // [tokens, columns + 4]: L, ρ_map, ρ, 0, 0
};
/// Whether this GPU runs it.
bool mhc_forward_runs(const MhcSizes& sizes);
cudaError_t mhc_forward_cuda(const MhcForwardCuda& call, cudaStream_t stream);

/// A', B' (and a) of every token. From L in `saved`, or, where `product` is given, from the products H' w and Σ H'²,
/// which also fills L and ρ_map in.
struct MhcMapsCuda {
  MhcSizes sizes;
  MhcParametersCuda parameters;
  float map_eps = 0;
  const void* product = nullptr;   // [tokens, columns]
  const float* squares = nullptr;  // [tokens]
  float* saved = nullptr;
  float *residual = nullptr, *write = nullptr, *read = nullptr;  // read: null where it is not wanted
};
cudaError_t mhc_maps_cuda(const MhcMapsCuda& call, cudaStream_t stream);

/// mhc_forward_cuda without packed weights: true where it serves this call, with `error` set; otherwise it does
/// nothing.
bool mhc_forward_by_clusters(const MhcForwardCuda& call, cudaStream_t stream, cudaError_t* error);

struct MhcBackwardCuda {
  MhcSizes sizes;
  MhcParametersCuda parameters;
  bool norm = true;
  const void* h = nullptr;                        // H'
  const void *g_mixed = nullptr, *g_z = nullptr;  // null: zero
  const float *g_write = nullptr, *write = nullptr, *saved = nullptr;
  const void *r = nullptr, *gain = nullptr;  // r null: absent, as are g_r and g_b
  // between the kernels
  float *dots = nullptr, *records = nullptr;  // [tokens, dots()], [tokens, record()]
  void* e = nullptr;                          // [tokens, columns]
  const void* packed = nullptr;               // tiles: the weights
  const void* term = nullptr;                 // otherwise: e wᵀ [tokens, n, d]
  // results
  void *g_h = nullptr, *g_r = nullptr;
  float* g_b = nullptr;
  // sums over tokens in parts: the gain's [gain_parts, d]; of b and s [map_parts, columns + 3]; D [weight_parts, n d,
  // columns]; of g_b [tokens, slices(), n] (tiles)
  float *gain_sums = nullptr, *map_sums = nullptr, *weight_sums = nullptr, *g_b_sums = nullptr;
};
/// In how many parts the tokens are cut: depends on the sizes and the GPU alone. `weight` is 1 where D is the caller's.
struct MhcParts {
  int gain = 0, map = 0, weight = 1;
};
cudaError_t mhc_dots_parts(const MhcSizes& sizes, int* parts);
cudaError_t mhc_weight_parts(const MhcSizes& sizes, int* parts);
int mhc_map_parts(const MhcSizes& sizes);
cudaError_t mhc_dots_cuda(const MhcBackwardCuda& call, const MhcParts& parts, cudaStream_t stream);
cudaError_t mhc_maps_backward_cuda(const MhcBackwardCuda& call, cudaStream_t stream);
cudaError_t mhc_write_backward_cuda(const MhcBackwardCuda& call, const MhcParts& parts, cudaStream_t stream);
cudaError_t mhc_mixed_backward_cuda(const MhcBackwardCuda& call, cudaStream_t stream);

/// The parameters' gradients; null: not wanted.
struct MhcSumsCuda {
  void* g_phi[3] = {};
  void* g_b[3] = {};
  void* g_s[3] = {};
  void *g_map_gain = nullptr, *g_gain = nullptr;
};
cudaError_t mhc_sums_cuda(const MhcBackwardCuda& call, const MhcParts& parts, const MhcSumsCuda& out,
                          cudaStream_t stream);

}  // namespace siamese::kernels
