// The training loop.
#pragma once

#include <c10/core/Device.h>

#include <string>

#include "recipe/recipe.h"
#include "train/out_of_memory.h"
#include "train/run_folder.h"
#include "util/error.h"

namespace siamese {

struct TrainRequest {
  Recipe recipe;
  std::string out;
  OpenMode mode = OpenMode::fresh;
  std::string from;       // resume: this checkpoint instead of the newest
  std::string init_from;  // fresh: weights of this checkpoint
  at::Device device = at::kCPU;
  std::string resume_command;  // printed when a signal stops the run
};

struct TrainResult {
  int64_t step = 0;
  int signal = 0;  // what stopped it, or 0
  double loss = 0, largest_grad_norm = 0;
  double tokens_per_s = 0;  // median of the steps; of `unit`s
  std::string unit = "token";
  std::string data_notes;  // where a loader's time went
  double data_wait = 0;    // share of the time spent waiting for data
  double seconds = 0;
};

/// A loss, a gradient or a weight that is not finite.
class Diverged : public Error {
 public:
  using Error::Error;
};

/// Trains to the end, to a signal, or throws Error (Diverged, OutOfMemory, a full disk, a damaged checkpoint).
TrainResult train(const TrainRequest& request);

}  // namespace siamese
