// Rows of a table by their number as a registered operator `siamese::embedding`. On a GPU its backward pass uses no
// atomics and gives the same bits every time (kernels/cuda/embedding.h); LibTorch's own does neither there. On the CPU
// it is LibTorch's, bit for bit.
#pragma once

#include <ATen/core/Tensor.h>

namespace siamese {

/// weight [vocab, d], ids of any shape, int64 -> [ids..., d]. fp64 on a GPU takes the plain path.
at::Tensor embed_tokens(const at::Tensor& weight, const at::Tensor& ids, bool fused = true);
at::Tensor embed_tokens_plain(const at::Tensor& weight, const at::Tensor& ids);

}  // namespace siamese
