// A run goes on from one of its checkpoints.
#pragma once

#include "train/checkpoint.h"
#include "train/optimizer.h"
#include "train/run_folder.h"
#include "train/task.h"

namespace siamese {

/// Weights, the optimizer's state and averaged weights as they were; what the run's folder has of later steps is set
/// aside. Returns the step. Refuses a checkpoint of another run, or of other classes.
int64_t resume_from(const Checkpoint& from, const Recipe& recipe, Task& task, Optimizer& optimizer, RunFolder& folder);

}  // namespace siamese
