// Operations that move pixels: affine warps that keep the size of the picture and sample as Pillow's Image.transform.
#pragma once

#include <array>

#include "images/image.h"
#include "images/resize.h"

namespace siamese {

/// Colour of what moves in from outside the picture, a value a channel.
using Fill = std::array<uint8_t, 3>;

/// Where a pixel comes from. With centres at half coordinates, u = x + ½ and v = y + ½:
///   source u = a·u + b·v + c,  source v = d·u + e·v + f
struct Affine {
  double a = 1, b = 0, c = 0, d = 0, e = 1, f = 0;
};

/// Bilinear, or bicubic with a = -1 (sharper than resize's, as in Pillow). Beyond the outermost centres values repeat;
/// from outside the picture comes `fill`. Values are cut off to whole numbers.
Image warp(const Image& image, const Affine& source, Filter filter, const Fill& fill);

/// Counter-clockwise around the centre.
Image rotate(const Image& image, double degrees, Filter filter, const Fill& fill);
/// A row moves to the left by `factor` times its distance from the top; a column up by that times its distance from the
/// left edge.
Image shear_x(const Image& image, double factor, Filter filter, const Fill& fill);
Image shear_y(const Image& image, double factor, Filter filter, const Fill& fill);
/// To the left or up by `share` of the width or height.
Image translate_x(const Image& image, double share, Filter filter, const Fill& fill);
Image translate_y(const Image& image, double share, Filter filter, const Fill& fill);

}  // namespace siamese
