// Which part of a picture becomes the sample.
#pragma once

#include "images/chances.h"
#include "images/resize.h"

namespace siamese {

/// A random part: share of the area uniform in [least_share, 1], width/height log-uniform in 3/4 … 4/3, whole pixels.
/// Ten draws; where none fits, the largest centred part of an allowed ratio.
Box draw_part(int width, int height, double least_share, Chances& chances);

/// What a centre crop of `size` shows after the shorter side was resized to `shorter` pixels. Resizing this box to size
/// × size equals resizing everything and cropping, as both sample at the same points.
Box centre_part(int width, int height, int shorter, int size);

}  // namespace siamese
