// Normal noise of diffusion models: every value depends on (seed, step, use, sample, element) only, so a sample is the
// same in whatever batch, on whatever rank or device it is drawn.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace siamese {

/// What the noise is for: tells draws of one seed and step apart.
enum class NoiseUse : uint32_t { start = 1, step = 2, training = 3, training_steps = 4 };

/// Where draws belong: row i of the batch is sample `first` + i. `step` is the diffusion's step where a sampler draws,
/// the optimizer's step where training does.
struct NoiseKey {
  int64_t seed = 1;
  int64_t step = 0;
  int64_t first = 0;
};

/// N(0, 1) of the shape [batch, ...]; the numbers are fp32 ones whatever the type.
at::Tensor normal_noise(at::IntArrayRef shape, at::ScalarType dtype, at::Device device, NoiseUse use,
                        const NoiseKey& key);

/// [batch] int64 steps for training, uniform in [0, steps).
at::Tensor random_steps(int64_t batch, int64_t steps, at::Device device, const NoiseKey& key);

}  // namespace siamese
