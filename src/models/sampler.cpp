#include "models/sampler.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "models/noise.h"
#include "util/error.h"

namespace siamese {

Denoiser guided(LabelledDenoiser model, at::Tensor labels, const Guidance& guidance) {
  if (guidance.cfg == 1)  // u + 1·(c - u): half the work
    return [model = std::move(model), labels = std::move(labels)](const at::Tensor& x, const at::Tensor& t) {
      return model(x, t, labels);
    };
  const at::Tensor both = at::cat({labels, at::full_like(labels, guidance.null_label)});
  return [model = std::move(model), both, guidance](const at::Tensor& x, const at::Tensor& t) {
    if (both.size(0) != 2 * x.size(0)) fail("guidance: {} labels for {} samples", both.size(0) / 2, x.size(0));
    const std::vector<at::Tensor> halves = model(at::cat({x, x}), at::cat({t, t}), both).chunk(2);
    const at::Tensor &with = halves[0], &without = halves[1];
    const int64_t all = with.size(1), count = guidance.first_three ? std::min<int64_t>(3, x.size(1)) : x.size(1);
    const at::Tensor c = with.narrow(1, 0, count), u = without.narrow(1, 0, count);
    return at::cat({u + guidance.cfg * (c - u), with.narrow(1, count, all - count)}, 1);
  };
}

at::Tensor draw_samples(const Diffusion& diffusion, const Denoiser& model, at::IntArrayRef shape,
                        const SamplerOptions& o) {
  const bool ddim = o.method == "ddim";
  if (!ddim && o.method != "ddpm") fail("sampler '{}' is none of ddpm, ddim", o.method);
  if (!(o.eta >= 0 && o.eta <= 1)) fail("ddim's eta must be in [0, 1] but is {}", o.eta);
  if (shape.size() < 2) fail("samples must be [batch, channels, ...]");
  const at::NoGradGuard no_grad;
  const at::Device device = diffusion.device();
  auto noise = [&](NoiseUse use, int64_t step) {
    return normal_noise(shape, o.dtype, device, use, {o.seed, step, o.first});
  };
  at::Tensor x = noise(NoiseUse::start, 0);
  for (int64_t i = diffusion.steps() - 1; i >= 0; --i) {
    const at::Tensor t = at::full({shape[0]}, i, at::TensorOptions().dtype(at::kLong).device(device));
    const ReverseStep p = diffusion.p_mean_variance(model(x, diffusion.original_steps(t)), x, t, o.clip);
    const int64_t original = diffusion.timestep_map()[static_cast<size_t>(i)];
    // Keyed by the original step: respacing changes which draws are used, not what they are.
    const at::Tensor z = ddim && o.eta == 0 ? at::Tensor() : noise(NoiseUse::step, original);
    x = ddim ? diffusion.ddim_step(p, x, t, o.eta, z) : diffusion.ddpm_step(p, t, z);
    if (o.each_step) o.each_step({diffusion.steps() - i, diffusion.steps(), original, x, p.pred_xstart});
  }
  return x;
}

}  // namespace siamese
