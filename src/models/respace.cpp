#include "models/respace.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "util/error.h"

namespace siamese {
namespace {

std::vector<double> linear_schedule(int64_t steps) {
  const double scale = 1000.0 / static_cast<double>(steps), first = scale * 1e-4, last = scale * 0.02;
  if (last >= 1)
    fail("diffusion.schedule linear needs more than 20 diffusion.steps (here {}): its last β is {}", steps, last);
  const double step = (last - first) / static_cast<double>(steps - 1);
  std::vector<double> betas(static_cast<size_t>(steps));
  for (size_t t = 0; t < betas.size(); ++t) betas[t] = first + static_cast<double>(t) * step;
  betas.back() = last;
  return betas;
}

std::vector<double> cosine_schedule(int64_t steps) {
  auto alpha_bar = [&](int64_t t) {
    const double u = static_cast<double>(t) / static_cast<double>(steps);
    const double c = std::cos((u + 0.008) / 1.008 * std::numbers::pi / 2);
    return c * c;
  };
  std::vector<double> betas(static_cast<size_t>(steps));
  for (int64_t t = 0; t < steps; ++t)
    betas[static_cast<size_t>(t)] = std::min(1 - alpha_bar(t + 1) / alpha_bar(t), 0.999);
  return betas;
}

}  // namespace

std::vector<double> noise_schedule(const std::string& name, int64_t steps) {
  if (steps < 2) fail("diffusion.steps is {}: a diffusion needs 2 or more", steps);
  if (name == "linear") return linear_schedule(steps);
  if (name == "cosine") return cosine_schedule(steps);
  fail("diffusion.schedule '{}' is none of linear, cosine", name);
}

std::vector<double> cumulative_alphas(const std::vector<double>& betas) {
  std::vector<double> products(betas.size());
  double product = 1;
  for (size_t t = 0; t < betas.size(); ++t) products[t] = product *= 1 - betas[t];
  return products;
}

std::vector<int64_t> respaced_steps(int64_t steps, int64_t n) {
  if (n < 1 || n > steps) fail("{} steps cannot be chosen from the {} of the diffusion", n, steps);
  const double stride = n == 1 ? 1.0 : static_cast<double>(steps - 1) / static_cast<double>(n - 1);
  std::vector<int64_t> kept(static_cast<size_t>(n));
  double position = 0;  // summed, not multiplied: that decides the halves as the published code does
  for (int64_t& step : kept) {
    step = std::llrint(position);  // half to even: the mode of rounding a program starts with
    position += stride;
  }
  return kept;
}

std::vector<double> respaced_betas(const std::vector<double>& betas, const std::vector<int64_t>& kept) {
  const std::vector<double> products = cumulative_alphas(betas);
  std::vector<double> out;
  out.reserve(kept.size());
  double before = 1;
  int64_t last = -1;
  for (const int64_t step : kept) {
    if (step <= last || step >= static_cast<int64_t>(products.size()))
      fail("step {} after step {} is no subset of the {} steps of the diffusion", step, last, products.size());
    const double product = products[static_cast<size_t>(step)];
    out.push_back(1 - product / before);
    before = product;
    last = step;
  }
  return out;
}

}  // namespace siamese
