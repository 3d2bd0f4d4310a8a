// What counts as a gain where normed values have to tell what they were before (cuda/attention_norms.cuh).
#pragma once

namespace siamese::kernels {

constexpr float kLeastGain = 0x1p-60f;  // what a gain of 0 counts as
/// Up to this ratio gains are alike (cuda/head_gain.cuh). x̂ in the column of the smaller one is then 3.6e-3 off (rms,
/// of its size; 1.7e-3 if both are the same, which is bf16's rounding), and the gradient there, of gradients that have
/// nothing to do with x̂, 1.6e-3, which its rounding to bf16 adds once more.
constexpr float kAlikeGains = 4.f;

}  // namespace siamese::kernels
