#include "models/diffusion.h"

#include <ATen/ATen.h>

#include <cmath>
#include <numbers>

#include "models/respace.h"
#include "util/error.h"

namespace siamese {
namespace {

/// Rows of the table of coefficients, one column a step.
enum Row : int64_t {
  kSqrtAlpha,          // sqrt(ᾱ_t)
  kSqrtNoise,          // sqrt(1-ᾱ_t)
  kSqrtRecipAlpha,     // sqrt(1/ᾱ_t)
  kSqrtRecipNoise,     // sqrt(1/ᾱ_t - 1)
  kMeanX0,             // c1
  kMeanXt,             // c2
  kPosteriorVariance,  // β̃_t
  kLogPosterior,       // ln β̃_t, at t = 0 ln β̃_1
  kLogBeta,            // ln β_t
  kLarge,              // β_t, at t = 0 β̃_1
  kLogLarge,           //
  kSqrtAlphaBefore,    // sqrt(ᾱ_{t-1})
  kNoiseBefore,        // 1-ᾱ_{t-1}
  kRows
};

/// fp64 stays, everything else is computed in fp32.
at::ScalarType compute_type(const at::Tensor& t) { return t.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }

at::Tensor mean_flat(const at::Tensor& t) { return t.flatten(1).mean(1); }

/// KL(N(m1, e^l1) ‖ N(m2, e^l2)) = ½(-1 + l2 - l1 + e^(l1-l2) + (m1-m2)²·e^-l2)
at::Tensor normal_kl(const at::Tensor& m1, const at::Tensor& l1, const at::Tensor& m2, const at::Tensor& l2) {
  return 0.5 * (l2 - l1 - 1 + (l1 - l2).exp() + (m1 - m2).square() * (-l2).exp());
}

/// Φ(x) ≈ ½(1 + tanh(√(2/π)(x + 0.044715x³)))
at::Tensor normal_cdf(const at::Tensor& x) {
  const double scale = std::sqrt(2 / std::numbers::pi);
  return 0.5 * (1 + (scale * (x + 0.044715 * x * x * x)).tanh());
}

/// ln of N(mean, σ²)'s mass in the bin x ± 1/255: values are 8-bit ones spread over [-1, 1]; the outermost bins reach
/// to infinity.
at::Tensor discretised_log_likelihood(const at::Tensor& x, const at::Tensor& mean, const at::Tensor& log_sigma) {
  const at::Tensor inverse = (-log_sigma).exp(), centred = x - mean;
  const at::Tensor upper = normal_cdf(inverse * (centred + 1.0 / 255)),
                   lower = normal_cdf(inverse * (centred - 1.0 / 255));
  auto safe_log = [](const at::Tensor& mass) { return mass.clamp_min(1e-12).log(); };
  return at::where(x < -0.999, safe_log(upper), at::where(x > 0.999, safe_log(1 - lower), safe_log(upper - lower)));
}

}  // namespace

Diffusion::Diffusion(const DiffusionConfig& config, Variance variance, int64_t respace, at::Device device)
    : variance_(variance), predict_v_(config.predict == "v") {
  if (!predict_v_ && config.predict != "epsilon") fail("diffusion.predict '{}' is none of epsilon, v", config.predict);
  map_ = respaced_steps(config.steps, respace > 0 ? respace : config.steps);
  // Also for all steps, where the published code's β are those of ᾱ as well, 1e-14 off the schedule's.
  betas_ = respaced_betas(noise_schedule(config.schedule, config.steps), map_);
  alphas_cumprod_ = cumulative_alphas(betas_);

  const int64_t n = steps();
  const at::Tensor beta = at::tensor(betas_, at::kDouble), alpha = at::tensor(alphas_cumprod_, at::kDouble);
  const at::Tensor before = at::cat({at::ones({1}, at::kDouble), alpha.slice(0, 0, n - 1)});
  const at::Tensor posterior = beta * (1 - before) / (1 - alpha);
  // A process of one step has no β̃_1, but that step adds no noise either.
  const at::Tensor first = n > 1 ? posterior.slice(0, 1, 2) : beta;
  const at::Tensor large = at::cat({first, beta.slice(0, 1)});
  std::vector<at::Tensor> rows(kRows);
  rows[kSqrtAlpha] = alpha.sqrt();
  rows[kSqrtNoise] = (1 - alpha).sqrt();
  rows[kSqrtRecipAlpha] = (1 / alpha).sqrt();
  rows[kSqrtRecipNoise] = (1 / alpha - 1).sqrt();
  rows[kMeanX0] = beta * before.sqrt() / (1 - alpha);
  rows[kMeanXt] = (1 - before) * (1 - beta).sqrt() / (1 - alpha);
  rows[kPosteriorVariance] = posterior;
  rows[kLogPosterior] = at::cat({first, posterior.slice(0, 1)}).log();
  rows[kLogBeta] = beta.log();
  rows[kLarge] = large;
  rows[kLogLarge] = large.log();
  rows[kSqrtAlphaBefore] = before.sqrt();
  rows[kNoiseBefore] = 1 - before;
  table64_ = at::stack(rows).to(device);
  table32_ = table64_.to(at::kFloat);
  map_on_device_ = at::tensor(map_, at::kLong).to(device);
}

/// [rows, batch, 1, ...]: one lookup serves all coefficients of a call, each of which broadcasts over `like`.
at::Tensor Diffusion::look_up(const at::Tensor& t, const at::Tensor& like) const {
  if (like.dim() < 2 || t.dim() != 1 || t.size(0) != like.size(0))
    fail("diffusion: steps must be [batch] for tensors [batch, channels, ...]");
  std::vector<int64_t> shape(static_cast<size_t>(like.dim()) + 1, 1);
  shape[0] = kRows, shape[1] = t.size(0);
  return (compute_type(like) == at::kDouble ? table64_ : table32_).index_select(1, t).view(shape);
}

void Diffusion::check_output(const at::Tensor& model_output, const at::Tensor& x) const {
  const int64_t factor = variance_ == Variance::learned_range ? 2 : 1;
  if (model_output.dim() != x.dim() || model_output.size(1) != factor * x.size(1))
    fail("diffusion: the model's output has {} channels instead of {}",
         model_output.dim() > 1 ? model_output.size(1) : 0, factor * x.size(1));
}

at::Tensor Diffusion::original_steps(const at::Tensor& t) const { return map_on_device_.index_select(0, t); }

at::Tensor Diffusion::q_sample(const at::Tensor& x0, const at::Tensor& t, const at::Tensor& noise) const {
  const at::Tensor c = look_up(t, x0);
  return c[kSqrtAlpha] * x0 + c[kSqrtNoise] * noise;
}

at::Tensor Diffusion::target(const at::Tensor& x0, const at::Tensor& t, const at::Tensor& noise) const {
  if (!predict_v_) return noise;
  const at::Tensor c = look_up(t, x0);
  return c[kSqrtAlpha] * noise - c[kSqrtNoise] * x0;
}

DiffusionLosses Diffusion::training_losses(const at::Tensor& model_output, const at::Tensor& x0, const at::Tensor& x_t,
                                           const at::Tensor& t, const at::Tensor& noise) const {
  check_output(model_output, x0);
  const int64_t channels = x0.size(1);
  const at::Tensor output = model_output.to(compute_type(x0)), prediction = output.narrow(1, 0, channels);
  DiffusionLosses losses;
  losses.mse = mean_flat((target(x0, t, noise) - prediction).square());
  losses.loss = losses.mse;
  if (variance_ != Variance::learned_range) return losses;

  const at::Tensor c = look_up(t, x0);
  const ReverseStep p = reverse(prediction.detach(), output.narrow(1, channels, channels), x_t, c, /*clip=*/false);
  const at::Tensor kl = mean_flat(
                       normal_kl(c[kMeanX0] * x0 + c[kMeanXt] * x_t, c[kLogPosterior], p.mean, p.log_variance)),
                   nll = -mean_flat(discretised_log_likelihood(x0, p.mean, 0.5 * p.log_variance));
  losses.vb = at::where(t == 0, nll, kl) / std::numbers::ln2;
  losses.loss = losses.mse + losses.vb;
  return losses;
}

ReverseStep Diffusion::p_mean_variance(const at::Tensor& model_output, const at::Tensor& x_t, const at::Tensor& t,
                                       bool clip) const {
  check_output(model_output, x_t);
  const int64_t channels = x_t.size(1);
  const at::Tensor output = model_output.to(compute_type(x_t));
  return reverse(output.narrow(1, 0, channels), output.narrow(1, channels, output.size(1) - channels), x_t,
                 look_up(t, x_t), clip);
}

/// `s` is read only where the variance is learned.
ReverseStep Diffusion::reverse(const at::Tensor& prediction, const at::Tensor& s, const at::Tensor& x_t,
                               const at::Tensor& c, bool clip) const {
  ReverseStep p;
  p.pred_xstart = predict_v_ ? c[kSqrtAlpha] * x_t - c[kSqrtNoise] * prediction
                             : c[kSqrtRecipAlpha] * x_t - c[kSqrtRecipNoise] * prediction;
  if (clip) p.pred_xstart = p.pred_xstart.clamp(-1, 1);
  p.mean = c[kMeanX0] * p.pred_xstart + c[kMeanXt] * x_t;
  if (variance_ == Variance::learned_range) {
    const at::Tensor f = (s + 1) / 2;
    p.log_variance = f * c[kLogBeta] + (1 - f) * c[kLogPosterior];
    p.variance = p.log_variance.exp();
  } else {
    const bool large = variance_ == Variance::fixed_large;
    p.variance = c[large ? kLarge : kPosteriorVariance].expand_as(x_t);
    p.log_variance = c[large ? kLogLarge : kLogPosterior].expand_as(x_t);
  }
  return p;
}

at::Tensor Diffusion::ddpm_step(const ReverseStep& p, const at::Tensor& t, const at::Tensor& noise) const {
  std::vector<int64_t> shape(static_cast<size_t>(p.mean.dim()), 1);
  shape[0] = t.size(0);
  return p.mean + (t != 0).view(shape) * (0.5 * p.log_variance).exp() * noise;
}

at::Tensor Diffusion::ddim_step(const ReverseStep& p, const at::Tensor& x_t, const at::Tensor& t, double eta,
                                const at::Tensor& noise) const {
  const at::Tensor c = look_up(t, x_t);
  // From x_0, not from the model's output: clipping x_0 changes ε with it.
  const at::Tensor epsilon = (c[kSqrtRecipAlpha] * x_t - p.pred_xstart) / c[kSqrtRecipNoise];
  const at::Tensor variance = eta * eta * c[kPosteriorVariance];
  const at::Tensor mean =
      c[kSqrtAlphaBefore] * p.pred_xstart + (c[kNoiseBefore] - variance).clamp_min(0).sqrt() * epsilon;
  return eta == 0 ? mean : mean + variance.sqrt() * noise;
}

}  // namespace siamese
