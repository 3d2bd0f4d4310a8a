// Recomputation: what is not kept for the backward pass, and a piece of the network that is run again there. LibTorch
// has no such thing in C++. Random numbers are counter-based, so both runs draw the same ones.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace siamese {

/// Each gives up what the one before it does, and more. norms: what sub-layers read (z of ops/stream_step.h);
/// feed_forward: the activation's output as well; both are rebuilt by the kernels of the backward pass, on a GPU only.
/// block: everything between two blocks.
enum class Recompute { none, norms, feed_forward, block };

using TensorFunction = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

/// f(inputs), keeping only `inputs`. `params` are the parameters f uses; they receive gradients too.
std::vector<at::Tensor> recompute(const TensorFunction& f, const std::vector<at::Tensor>& inputs,
                                  const std::vector<at::Tensor>& params);

}  // namespace siamese
