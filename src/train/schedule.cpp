#include "train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace siamese {

double learning_rate(const TrainConfig& t, int64_t step) {
  const double s = static_cast<double>(step), warm = static_cast<double>(t.warmup_steps),
               total = static_cast<double>(t.steps);
  if (step < t.warmup_steps) return t.lr * (t.warmup_from + (1.0 - t.warmup_from) * s / warm);
  if (t.schedule == "constant") return t.lr;
  if (t.schedule == "wsd") {
    const double length = std::max(1.0, t.decay_fraction * total), begin = total - length;
    const double p = std::clamp((s - begin) / length, 0.0, 1.0);
    return t.lr * (1.0 - (1.0 - t.final_lr) * p);
  }
  const double p = std::clamp((s - warm) / std::max(1.0, total - warm), 0.0, 1.0);
  if (t.schedule == "linear") return t.lr * (1.0 - (1.0 - t.final_lr) * p);
  return t.lr * (t.final_lr + (1.0 - t.final_lr) * 0.5 * (1.0 + std::cos(std::numbers::pi * p)));
}

}  // namespace siamese
