// Random erasing (Zhong et al., 2017) in the mode DeiT uses: a rectangle of noise, every value drawn on its own.
#pragma once

#include <span>

#include "images/chances.h"

namespace siamese {

/// Fills one rectangle of `pixels` [channels, size, size], normalised already, with normal noise: share of the area
/// uniform in 0.02 … 1/3, height/width log-uniform in 0.3 … 1/0.3. Nothing if ten draws do not fit.
void erase_part(std::span<float> pixels, int channels, int size, Chances& chances);

}  // namespace siamese
