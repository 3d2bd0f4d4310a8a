// From the configs in golden files, the official code's and ours, to a ModelConfig.
#pragma once

#include "io/safetensors.h"
#include "recipe/recipe.h"

namespace siamese {

ModelConfig golden_config(const SafetensorsFile& file);

}  // namespace siamese
