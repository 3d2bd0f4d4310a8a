#include "models/noise.h"

#include <ATen/ATen.h>

#include "ops/random.h"
#include "util/error.h"
#include "util/philox.h"

namespace siamese {
namespace {

/// Element numbers count over all samples, as those of a batch that holds every sample would.
Draw draw_for(NoiseUse use, const NoiseKey& key, int64_t elements) {
  return {key.seed, key.step, site_at(kSampling, static_cast<uint32_t>(use)), key.first * elements};
}

}  // namespace

at::Tensor normal_noise(at::IntArrayRef shape, at::ScalarType dtype, at::Device device, NoiseUse use,
                        const NoiseKey& key) {
  if (shape.empty()) fail("noise needs a shape [batch, ...]");
  at::Tensor noise = at::empty(shape, at::TensorOptions().dtype(dtype).device(device));
  if (noise.numel() == 0) return noise;
  truncated_normal_(noise, 1.0, /*cutoff: none*/ 0.0, draw_for(use, key, noise.numel() / shape[0]));
  return noise;
}

at::Tensor random_steps(int64_t batch, int64_t steps, at::Device device, const NoiseKey& key) {
  const at::Tensor u = uniform({batch}, device, draw_for(NoiseUse::training_steps, key, 1));
  return (u.to(at::kDouble) * static_cast<double>(steps)).to(at::kLong);  // fp64: a product below `steps` stays below
}

}  // namespace siamese
