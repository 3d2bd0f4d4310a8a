// How good a model in training is: numbers, and pictures for those who would rather look.
#pragma once

#include <string>

#include "train/optimizer.h"
#include "train/task.h"

namespace siamese {

/// By the weights as they are; of image models with averaged ones also by these, as ema_*. The validation loss comes
/// first.
EvalMetrics validate(Task& task, const Optimizer& optimizer, const Recipe& recipe);

/// Pictures of the model at `step` into the run's folder, by averaged weights where there are some. Returns why there
/// are none, in one line, or "": hours of training are worth more than a picture.
std::string draw_pictures(Task& task, const Optimizer& optimizer, const std::string& run, int64_t step);

}  // namespace siamese
