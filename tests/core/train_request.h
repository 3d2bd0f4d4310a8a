// What the tests of training ask for: a recipe, a run folder, and how to open it.
#pragma once

#include <string>

#include "train/trainer.h"

namespace siamese {

inline TrainRequest request(const Recipe& recipe, const std::string& out, OpenMode mode = OpenMode::fresh) {
  TrainRequest r;
  r.recipe = recipe;
  r.out = out;
  r.mode = mode;
  return r;
}

}  // namespace siamese
