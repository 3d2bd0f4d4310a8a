// The algorithms that a run's products take on a GPU (ops/product_list.h) stay with the run, in products.txt: resumed,
// it takes them again, not what is fastest by then. Nothing where there is no GPU.
#pragma once

#include "train/run_folder.h"

namespace siamese {

/// Before the first step. Resumed from `checkpoint` (a folder RUN/checkpoints/STEP): those of the folder, or of the run
/// that the checkpoint is from; "", a new run: none.
void take_products(const RunFolder& folder, const std::string& checkpoint);

/// Stores what was chosen so far.
void keep_products(const RunFolder& folder);

}  // namespace siamese
