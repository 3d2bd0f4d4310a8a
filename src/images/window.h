// A square of a picture, possibly mirrored and reaching beyond its edges, where it is black. Cropping, padding and
// flipping are done on the way to floats, without a copy of the picture.
#pragma once

#include <span>

#include "images/image.h"
#include "images/transform.h"

namespace siamese {

struct Window {
  const Image* image = nullptr;
  int x = 0, y = 0, size = 0;  // of its upper left corner, in pixels of the picture
  bool mirrored = false;
};

/// The window as a picture of its own.
Image cut_out(const Window& window);

/// out[c, y, x] = (value/255 - mean_c)/deviation_c. Colour becomes grey for one channel, grey is repeated for three.
void to_floats(const Window& window, const Normalize& normalize, int channels, std::span<float> out);

}  // namespace siamese
