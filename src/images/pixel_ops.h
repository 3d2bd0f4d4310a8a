// Operations that change values and leave every pixel in its place. They round as Pillow's ImageOps and ImageEnhance
// do, so that a model trained elsewhere finds the same pictures here. All work in place.
#pragma once

#include "images/image.h"

namespace siamese {

/// Brightness of a pixel as Pillow converts RGB to L.
inline int luma(const uint8_t* rgb) { return (19595 * rgb[0] + 38470 * rgb[1] + 7471 * rgb[2] + 32768) >> 16; }

/// Each channel stretched linearly so that its least value becomes 0 and its greatest 255.
void auto_contrast(Image& image);
/// Each channel mapped so that all values are about equally frequent.
void equalize(Image& image);
void invert(Image& image);
/// The upper `bits` (0 … 8) of every value remain.
void posterize(Image& image, int bits);
/// Values from `threshold` (0 … 256) on are inverted.
void solarize(Image& image, int threshold);
/// Values below `threshold` grow by `amount`, up to 255.
void solarize_add(Image& image, int amount, int threshold = 128);

// Enhancers: v ← g + factor·(v - g). 0 gives the plain picture g, 1 changes nothing, more than 1 exaggerates.

/// g: the picture in grey.
void color(Image& image, double factor);
/// g: the mean brightness everywhere.
void contrast(Image& image, double factor);
/// g: black.
void brightness(Image& image, double factor);
/// g: smoothed by a 3×3 kernel; the outermost pixels stay as they are.
void sharpness(Image& image, double factor);

}  // namespace siamese
