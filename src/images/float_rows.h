// Rows of bytes to rows of normalised floats, a plane a channel, on raw pointers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace siamese {

/// (value/255 - mean)/deviation = scale·value + black
struct Levels {
  float scale, black;
};

/// `count` pixels of red, green and blue; the next one lies `step` bytes further (3, or -3 for a mirrored row). out[c]
/// is where the plane of channel c takes them. The same values on every machine.
void float_row(const uint8_t* pixel, ptrdiff_t step, int count, const Levels levels[3], float* const out[3]);

}  // namespace siamese
