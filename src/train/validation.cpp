#include "train/validation.h"

#include "train/out_of_memory.h"
#include "train/swapped_weights.h"

namespace siamese {

EvalMetrics validate(Task& task, const Optimizer& optimizer, const Recipe& recipe) {
  EvalMetrics all = task.evaluate();
  if (recipe.model.family == "lm") return all;
  if (const NamedTensors average = optimizer.average(); !average.empty()) {
    const SwappedWeights swapped(task.params(), average);
    for (const auto& [name, value] : task.evaluate()) all.emplace_back("ema_" + name, value);
  }
  return all;
}

std::string draw_pictures(Task& task, const Optimizer& optimizer, const std::string& run, int64_t step) {
  try {
    const SwappedWeights swapped(task.params(), optimizer.average());
    task.illustrate(run, step);
  } catch (const std::exception& e) {  // too little memory beside the step's, a full disk
    return torch_message(e.what());
  }
  return "";
}

}  // namespace siamese
