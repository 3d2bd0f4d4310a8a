// The noise schedule of a diffusion and the subset of its steps a sampler walks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace siamese {

/// β_t of the forward process q(x_t | x_{t-1}) = N(sqrt(1-β_t)·x_{t-1}, β_t), in fp64.
///   linear: from 1e-4·1000/T to 0.02·1000/T in equal steps (T = 1000 is Ho et al.'s; the factor keeps ᾱ_T for other T)
///   cosine: β_t = min(1 - a((t+1)/T)/a(t/T), 0.999), a(u) = cos²(π/2·(u + 0.008)/1.008)
/// Throws Error on another name, and where `linear` would leave (0, 1): it needs more than 20 steps.
std::vector<double> noise_schedule(const std::string& name, int64_t steps);

/// ᾱ_t = Π_{s≤t} (1 - β_s)
std::vector<double> cumulative_alphas(const std::vector<double>& betas);

/// `n` of the steps 0 … steps-1, both ends included: a running sum of (steps-1)/(n-1), rounded half to even. One step
/// is step 0.
std::vector<int64_t> respaced_steps(int64_t steps, int64_t n);

/// β of the process that visits only `kept` (rising): β'_i = 1 - ᾱ(kept_i)/ᾱ(kept_{i-1}), so that x at a kept step has
/// the distribution it had in the full process.
std::vector<double> respaced_betas(const std::vector<double>& betas, const std::vector<int64_t>& kept);

}  // namespace siamese
