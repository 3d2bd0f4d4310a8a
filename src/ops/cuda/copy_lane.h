// The CUDA side of CopyLane (ops/gpu_tools.h).
#pragma once

#include <memory>

#include "ops/gpu_tools.h"

namespace siamese {

std::unique_ptr<CopyLane> make_cuda_copy_lane(size_t bytes);

}  // namespace siamese
