// The CPU's stream step where its kernels do not serve (ops/stream_step_cpu.cpp).
#pragma once

#include "ops/step_call.h"

namespace siamese {

StepResults stream_step_forward_plain(const StepCall& call);
StepBackward stream_step_backward_plain(const StepCall& call, const StepGradients& g);

}  // namespace siamese
