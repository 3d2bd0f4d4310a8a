// Gradient of an embedding on the GPU without atomics: g_weight[v] = Σ g[n] over the tokens n whose id is v.
//
// The ids come sorted, with the tokens they belong to. Stage one: a block takes kEmbeddingChunk sorted positions and
// adds up each run of equal ids in fp32. A run that lies wholly inside is written to its row of the gradient; one that
// crosses a border of the chunk leaves its sum in scratch:
//   partial[chunk, 0]   the run began in an earlier chunk (and may go on into the next)
//   partial[chunk, 1]   the run begins here and goes on
// Stage two: for each chunk with a run of the second kind, the sum of partial[chunk, 1], partial[chunk+1, 0], … in
// fixed order. What is added, and in which order, depends on the ids alone.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace siamese::kernels {

constexpr int kEmbeddingChunk = 64;

struct EmbeddingGradientCuda {
  const void* g = nullptr;          // [tokens, d] of `type` (0 fp32, 2 bf16)
  const int32_t* ids = nullptr;     // [tokens], ascending, not negative
  const int64_t* places = nullptr;  // [tokens]: which row of g a sorted position is
  void* g_weight = nullptr;         // [vocab, d] of `type`, zero where no token is; rows with tokens are overwritten
  float* partial = nullptr;         // scratch [chunks, 2, d], chunks = ceil(tokens / kEmbeddingChunk)
  int type = 0;
  int64_t tokens = 0, d = 0;
};

cudaError_t embedding_gradient_cuda(const EmbeddingGradientCuda& call, cudaStream_t stream);

}  // namespace siamese::kernels
