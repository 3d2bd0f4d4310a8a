// Resizing by separable filters whose support grows with the factor, as Pillow does it (antialiased), in time linear in
// the pixels read and written.
#pragma once

#include "images/image.h"

namespace siamese {

enum class Filter { bilinear, bicubic };  // bicubic: a = -0.5

/// The part of a picture that is resized, in its pixels; may be fractional.
struct Box {
  double x = 0, y = 0, width = 0, height = 0;
};

Image resize(const Image& image, const Box& box, int width, int height, Filter filter);
/// The pixels of a picture of image_width × image_height that this resizing looks at.
Part reach_of(const Box& box, int image_width, int image_height, int width, int height, Filter filter);
inline Image resize(const Image& image, int width, int height, Filter filter) {
  return resize(image, {0, 0, static_cast<double>(image.width), static_cast<double>(image.height)}, width, height,
                filter);
}

}  // namespace siamese
