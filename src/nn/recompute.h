// Recomputation: run a piece of the network without keeping its intermediates, and run it again in the backward pass.
// LibTorch has no such thing in C++. Random numbers are counter-based, so both runs draw the same ones.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace siamese {

using TensorFunction = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

/// f(inputs), keeping only `inputs`. `params` are the parameters f uses; they receive gradients too.
std::vector<at::Tensor> recompute(const TensorFunction& f, const std::vector<at::Tensor>& inputs,
                                  const std::vector<at::Tensor>& params);

}  // namespace siamese
