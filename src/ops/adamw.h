// AdamW over all parameters at once: `siamese::adamw_plan_`, `siamese::adamw_accumulate_`, `siamese::adamw_step_`. Made
// for a GPU; the CPU, which trains by LibTorch's fused one, has them for those who call them there. The formulas stand
// in kernels/cuda/adamw.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace siamese {

/// The tables of kernels/adamw_table.h as device tensors. They hold addresses: who fills them keeps the tensors alive.
struct AdamwBuffers {
  at::Tensor tensors;    // bytes: an AdamwTensor a parameter
  at::Tensor gradients;  // bytes: an AdamwGradient a parameter
  at::Tensor chunks;     // bytes: an AdamwChunk a thread block
  at::Tensor partials;   // fp32, one a chunk
  at::Tensor control;    // fp64: an AdamwControl
};

/// Learning rate and number (from 1) of the coming step. Stays outside of a captured CUDA graph, the others may go in.
void adamw_plan(const AdamwBuffers& buffers, double lr, int64_t step);
/// sums (fp32) = or += gradients.
void adamw_accumulate(const AdamwBuffers& buffers, const at::Tensor& sums, bool add);
/// Norm, clip, update; nothing where the norm or the loss (fp64 scalar, may be undefined) is not finite.
void adamw_step(const AdamwBuffers& buffers, const at::Tensor& loss);

}  // namespace siamese
