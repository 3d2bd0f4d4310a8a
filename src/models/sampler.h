// Drawing samples from a diffusion model: DDPM, DDIM, classifier-free guidance.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>

#include "models/diffusion.h"

namespace siamese {

/// The model's output for x [batch, channels, ...] at the diffusion's original steps t [batch].
using Denoiser = std::function<at::Tensor(const at::Tensor& x, const at::Tensor& t)>;
/// The same for a model that is told labels [batch] as well.
using LabelledDenoiser = std::function<at::Tensor(const at::Tensor& x, const at::Tensor& t, const at::Tensor& labels)>;

struct Guidance {
  double cfg = 1.0;          // 1: the model as it is
  int64_t null_label = 0;    // the label that stands for none
  bool first_three = false;  // as DiT's published code: the other channels of the prediction stay the conditional ones
};

/// Classifier-free guidance: u + cfg·(c - u) of the conditional prediction c and the unconditional one u, from one call
/// on [x; x] with [labels; null]. Channels of the variance stay the conditional ones. For v-prediction it is the same
/// guidance: ε is v and x_t in fixed shares. `labels` [batch] must be as many as the samples of a call.
Denoiser guided(LabelledDenoiser model, at::Tensor labels, const Guidance& guidance);

struct SamplerStep {
  int64_t done, total;            // steps taken and to take
  int64_t original_step;          // the diffusion's step that was left
  const at::Tensor& x;            // after it
  const at::Tensor& pred_xstart;  // the x_0 it was aimed at
};

struct SamplerOptions {
  std::string method = "ddpm";  // ddpm | ddim
  double eta = 0.0;             // ddim: 0 deterministic, 1 as much noise as ddpm with the posterior's variance
  bool clip = false;            // x_0 clamped to [-1, 1] in every step: for pixels, not for latents
  int64_t seed = 1;
  int64_t first = 0;  // number of the batch's first sample: sample i is the same in any batch it is drawn in
  at::ScalarType dtype = at::kFloat;
  std::function<void(const SamplerStep&)> each_step;  // progress, trajectories
};

/// Samples of the shape [batch, channels, ...] on the diffusion's device; takes diffusion.steps() steps.
at::Tensor draw_samples(const Diffusion& diffusion, const Denoiser& model, at::IntArrayRef shape,
                        const SamplerOptions& options);

}  // namespace siamese
