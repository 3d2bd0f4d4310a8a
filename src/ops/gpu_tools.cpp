#include "ops/gpu_tools.h"

namespace siamese {
namespace {
GpuTools* current = nullptr;
}

GpuTools* gpu_tools() { return current; }
void set_gpu_tools(GpuTools* tools) { current = tools; }

}  // namespace siamese
