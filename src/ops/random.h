// Registered random operators: `siamese::truncated_normal_`, `siamese::uniform_`, `siamese::dropout`. Values depend on
// (seed, step, site, element) only, never on the device, the number of threads or the order of calls.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace siamese {

/// Names one random draw; `offset` is the number of the tensor's first element in the global batch.
struct Draw {
  int64_t seed = 0;
  int64_t step = 0;
  uint32_t site = 0;
  int64_t offset = 0;
};

/// Fills `out` with a normal of the given standard deviation, truncated at `cutoff` deviations (0: not truncated).
void truncated_normal_(at::Tensor out, double std, double cutoff, const Draw& draw);

/// fp32 values in [0, 1).
at::Tensor uniform(at::IntArrayRef shape, at::Device device, const Draw& draw);

/// Inverted dropout with a mask that the backward pass draws again instead of storing. p = 0 returns x itself.
at::Tensor dropout(const at::Tensor& x, double p, const Draw& draw);

}  // namespace siamese
