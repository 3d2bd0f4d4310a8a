// Feed-forward activations on the GPU. SwiGLU on rows p = [a, b]: out = a·b·σ(b); GELU: out = p·Φ(p), by erf or by its
// tanh approximation. The backward pass needs p alone and gives the output again where it is wanted, so that a layer
// need not keep it.
//   SwiGLU: ga = g·b·σ(b);  gb = g·a·σ(b)·(1 + b(1 - σ(b)))      GELU: gp = g·(Φ(p) + p·φ(p))
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace siamese::kernels {

enum class ActivationKind { swiglu, gelu, gelu_tanh };

/// p [rows, 2·width] (SwiGLU) or [rows, width], out [rows, width]; width a multiple of 8, 16-byte aligned.
cudaError_t activation_forward_cuda(ActivationKind kind, bool bf16, const void* p, void* out, int64_t rows,
                                    int64_t width, cudaStream_t stream);
/// g [rows, width] -> gp as p; `again` null or the output [rows, width].
cudaError_t activation_backward_cuda(ActivationKind kind, bool bf16, const void* p, const void* g, void* gp,
                                     void* again, int64_t rows, int64_t width, cudaStream_t stream);

}  // namespace siamese::kernels
