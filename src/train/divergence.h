// What a run says of numbers that are not finite.
#pragma once

#include <string>

#include "nn/params.h"
#include "recipe/recipe.h"

namespace siamese {

/// The first parameter that is not finite, or "". Where all are, one number comes from the device.
std::string bad_parameter(const Params& params);

/// The end of such a message: where the last checkpoint of `run` is, and what to try.
std::string divergence_advice(const Recipe& recipe, const std::string& run);

}  // namespace siamese
