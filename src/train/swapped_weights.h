// Parameters that take other values for a while, such as the averaged ones for an evaluation.
#pragma once

#include <ATen/ATen.h>

#include <utility>
#include <vector>

#include "nn/params.h"
#include "nn/tensor_io.h"

namespace siamese {

/// While it lives, the parameters have other values (none: their own).
class SwappedWeights {
 public:
  /// The object is whole before anything is swapped: where memory gives out on the way, all values come back.
  SwappedWeights(const Params& params, const NamedTensors& others) : SwappedWeights() {
    const at::NoGradGuard no_grad;
    for (const auto& [name, value] : others) {
      kept_.emplace_back(params.at(name).value, params.at(name).value.clone());
      at::Tensor(kept_.back().first).copy_(value);
    }
  }
  ~SwappedWeights() {
    const at::NoGradGuard no_grad;
    for (auto& [parameter, value] : kept_) parameter.copy_(value);
  }
  SwappedWeights(const SwappedWeights&) = delete;
  SwappedWeights& operator=(const SwappedWeights&) = delete;

 private:
  SwappedWeights() = default;

  std::vector<std::pair<at::Tensor, at::Tensor>> kept_;
};

}  // namespace siamese
