// Mixup (Zhang et al., 2018) and CutMix (Yun et al., 2019), one choice for a whole batch, as DeiT trains.
#include <algorithm>
#include <cmath>

#include "images/chances.h"
#include "images/transform.h"
#include "util/error.h"

namespace siamese {
namespace {

/// Box of share √(1 - λ) of both sides around a uniform centre, cut off at the edges; λ ← 1 - its area.
Mix cut_box(double lambda, int size, Chances& chances) {
  const int half = static_cast<int>(size * std::sqrt(1 - lambda)) / 2;
  const int y = static_cast<int>(chances.below(static_cast<uint32_t>(size)));
  const int x = static_cast<int>(chances.below(static_cast<uint32_t>(size)));
  const auto inside = [&](int at) { return std::clamp(at, 0, size); };
  Mix mix{1, inside(x - half), inside(y - half), inside(x + half), inside(y + half)};
  mix.lambda = 1 - static_cast<double>(mix.x1 - mix.x0) * (mix.y1 - mix.y0) / (static_cast<double>(size) * size);
  return mix;
}

}  // namespace

Mix draw_mix(const AugmentConfig& config, int size, const RandomKey& key) {
  if (size < 1) fail("draw_mix: {} pixels a side", size);
  Chances chances(key);
  if ((config.mixup <= 0 && config.cutmix <= 0) || !chances.coin(config.mix_probability)) return {};
  const bool cut = config.cutmix > 0 && (config.mixup <= 0 || chances.coin(config.mix_switch));
  const double alpha = cut ? config.cutmix : config.mixup, lambda = chances.beta(alpha, alpha);
  if (cut) return cut_box(lambda, size, chances);
  return {.lambda = lambda};
}

// In place, both of a pair at once; the middle one of an odd batch is its own partner and stays.
//
//   mixup   a ← λ·a + (1 - λ)·b,  b ← λ·b + (1 - λ)·a      cutmix   a and b exchange the box
void apply_mix(const Mix& mix, std::span<float> images, int64_t batch, int channels, int size) {
  const int64_t plane = static_cast<int64_t>(size) * size, image = plane * channels;
  if (batch < 0 || static_cast<int64_t>(images.size()) != batch * image)
    fail("apply_mix: {} values, not {} pictures of {}", images.size(), batch, image);
  if (mix.cut() && (mix.x0 < 0 || mix.y0 < 0 || mix.x1 > size || mix.y1 > size))
    fail("apply_mix: box ({}, {}) … ({}, {}) leaves a picture of {}×{}", mix.x0, mix.y0, mix.x1, mix.y1, size, size);
  if (!mix.cut() && mix.lambda == 1) return;
  const auto own = static_cast<float>(mix.lambda), other = 1 - own;
  for (int64_t i = 0; i < batch / 2; ++i) {
    float *a = images.data() + i * image, *b = images.data() + (batch - 1 - i) * image;
    if (!mix.cut()) {
      for (int64_t k = 0; k < image; ++k) {
        const float before = a[k];
        a[k] = own * before + other * b[k];
        b[k] = own * b[k] + other * before;
      }
      continue;
    }
    for (int c = 0; c < channels; ++c)
      for (int y = mix.y0; y < mix.y1; ++y) {
        const int64_t row = c * plane + static_cast<int64_t>(y) * size;
        std::swap_ranges(a + row + mix.x0, a + row + mix.x1, b + row + mix.x0);
      }
  }
}

// Smoothing s over K classes: s/K for every class and 1 - s more for the right one. Both are linear, so that the mixed
// row is s/K + (1 - s)·(λ·onehot(own) + (1 - λ)·onehot(partner)), whose sum is 1.
void mixed_targets(const Mix& mix, std::span<const int64_t> labels, double smoothing, int64_t classes,
                   std::span<float> out) {
  const size_t batch = labels.size();
  if (classes < 1 || out.size() != batch * static_cast<size_t>(classes))
    fail("mixed_targets: room for {} values, not {} rows of {} classes", out.size(), batch, classes);
  for (const int64_t label : labels)
    if (label < 0 || label >= classes) fail("mixed_targets: label {} of {} classes", label, classes);
  const double off = smoothing / static_cast<double>(classes), right = 1 - smoothing;
  std::fill(out.begin(), out.end(), static_cast<float>(off));
  for (size_t i = 0; i < batch; ++i) {
    const auto row = out.subspan(i * static_cast<size_t>(classes), static_cast<size_t>(classes));
    const auto own = static_cast<size_t>(labels[i]), partner = static_cast<size_t>(labels[batch - 1 - i]);
    if (own == partner) {
      row[own] = static_cast<float>(off + right);
      continue;
    }
    row[own] = static_cast<float>(off + right * mix.lambda);
    row[partner] = static_cast<float>(off + right * (1 - mix.lambda));
  }
}

}  // namespace siamese
