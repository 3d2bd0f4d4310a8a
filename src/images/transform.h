// From a decoded picture to a model's input. All random choices come from a key, so that a sample is a pure function of
// (seed, epoch, index) whichever worker makes it.
#pragma once

#include <cstdint>
#include <span>

#include "images/image.h"
#include "recipe/recipe.h"
#include "util/philox.h"

namespace siamese {

class Transform {
 public:
  /// `size`: pixels a side of the model's input; `channels`: 1 or 3.
  Transform(const AugmentConfig& config, int size, int channels);

  /// A training sample: crop, flip, RandAugment or colour jitter, normalising, erasing. `out` is [channels, size,
  /// size].
  void train(const Image& image, const RandomKey& key, std::span<float> out) const;
  /// The pixels of a picture of this size that `train` looks at with this key.
  Part needed(int width, int height, const RandomKey& key) const;
  /// An evaluation sample: the shorter side resized to size / crop_ratio, then the centre. Crops `none` and `padded`,
  /// for small pictures: the whole, resized where it has another size.
  void evaluate(const Image& image, std::span<float> out) const;
  /// What a decoder may shrink to without loss for `train` and `evaluate`: see DecodeOptions::least_side. With crop
  /// `resized` a multiple of the size, as a small part must still have enough pixels.
  int least_side() const;

 private:
  AugmentConfig config_;
  int size_, channels_;
};

/// Mean and deviation of a value in 0 … 1 by AugmentConfig::normalize, for each channel; grey has one of its own.
struct Normalize {
  float mean[3], deviation[3];
};
Normalize normalize_of(const AugmentConfig& config, int channels = 3);

/// How a batch is mixed: every image with the one that stands as far from the end as it from the beginning.
/// lambda is the share of the image itself, cutmix's box is where the other one shows; box empty: mixup.
struct Mix {
  double lambda = 1;
  int x0 = 0, y0 = 0, x1 = 0, y1 = 0;
  bool cut() const { return x1 > x0 && y1 > y0; }
};
/// The choice for one batch. lambda is corrected to the box's true area.
Mix draw_mix(const AugmentConfig& config, int size, const RandomKey& key);
/// Mixes `images` [batch, channels, size, size] in place.
void apply_mix(const Mix& mix, std::span<float> images, int64_t batch, int channels, int size);
/// Target distribution [batch, classes]: labels smoothed, then mixed the same way.
void mixed_targets(const Mix& mix, std::span<const int64_t> labels, double smoothing, int64_t classes,
                   std::span<float> out);

}  // namespace siamese
