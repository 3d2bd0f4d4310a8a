// The learning rate as a function of the step.
#pragma once

#include "recipe/recipe.h"

namespace siamese {

/// For 0-based `step`. Linear warm-up from warmup_from·lr over warmup_steps; then
///   cosine:   lr·(f + (1-f)·½(1 + cos πp)), p from 0 to 1 over the rest, f = final_lr
///   linear:   lr·(1 - (1-f)·p)
///   constant: lr
///   wsd:      lr, and over the last decay_fraction of all steps linearly to f·lr
double learning_rate(const TrainConfig& train, int64_t step);

}  // namespace siamese
