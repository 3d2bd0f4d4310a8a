#include "train/resume.h"

namespace siamese {

int64_t resume_from(const Checkpoint& from, const Recipe& recipe, Task& task, Optimizer& optimizer, RunFolder& folder) {
  require_same_run(recipe, from.state().recipe, from.folder());
  require_same_classes(task.class_names(), from.state().classes, from.folder());
  load_tensors(from.open("model.safetensors"), named(task.params()));
  load_tensors(from.open("optimizer.safetensors"), optimizer.state());
  if (const NamedTensors average = optimizer.average(); !average.empty())
    load_tensors(from.open("ema.safetensors"), average);
  const int64_t step = from.state().step;
  set_aside_after(folder.path(), step);
  folder.remove_pictures_after(step);
  return step;
}

}  // namespace siamese
