// Latents of an autoencoder as training data: a safetensors file with `latents` [N, C, H, W] and `labels` [N].
#pragma once

#include "images/image_set.h"

namespace siamese {

/// From data.images (and data.validation_images, else every 20th sample validates), each value times `scale`. Throws
/// Error where the file's sizes are not [N, channels, size, size].
ImageSets make_latent_sets(const DataConfig& data, int64_t channels, int64_t size, double scale);

}  // namespace siamese
