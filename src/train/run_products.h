// The algorithms that a run's products take on a GPU (ops/product_list.h) stay with the run, in products.txt: resumed,
// it takes them again, not what is fastest by then. `gpu`: that of the run; null where it runs on a CPU, and nothing is
// done.
#pragma once

#include "ops/gpu_tools.h"
#include "train/run_folder.h"

namespace siamese {

/// Before the first step. Resumed from `checkpoint` (a folder RUN/checkpoints/STEP): those of the folder, or of the run
/// that the checkpoint is from; "", a new run: none.
void take_products(const RunFolder& folder, const std::string& checkpoint, GpuTools* gpu);

/// Stores what was chosen so far.
void keep_products(const RunFolder& folder, GpuTools* gpu);

}  // namespace siamese
