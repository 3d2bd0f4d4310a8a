#include "train/out_of_memory.h"

#include <c10/util/Exception.h>

#include <new>

#include "train/memory.h"
#include "train/models.h"

namespace siamese {
namespace {

constexpr const char* kOnHost = "DefaultCPUAllocator: ";     // says so
constexpr const char* kOnGpu = "CUDA error: out of memory";  // beside the allocator: pinned memory, a graph, a library

[[noreturn]] void throw_advice(const std::string& what, const Recipe& given, at::Device device) {
  const Recipe recipe = without_data(given);  // the run is gone, and what it knew of its data
  throw OutOfMemory(what, memory_advice(recipe, count_parameters(recipe), device));
}
/// What a run on a GPU has on the host is not in the table.
[[noreturn]] void throw_on_host(const std::string& what, const Recipe& recipe, at::Device device) {
  if (device.is_cpu()) throw_advice(what, recipe, device);
  throw OutOfMemory(what + " (the machine's memory, not the GPU's)", "");
}

}  // namespace

std::string torch_message(const std::string& what) {
  const std::string line = what.substr(0, what.find('\n'));
  const size_t at = line.find(kOnHost);
  return at == std::string::npos ? line : "out of memory: " + line.substr(line.find(": ", at) + 2);
}

void rethrow_with_advice(const Recipe& recipe, at::Device device) {
  try {
    throw;
  } catch (const c10::OutOfMemoryError& e) {
    throw_advice(torch_message(e.what_without_backtrace()), recipe, device);
  } catch (const c10::Error& e) {
    const std::string what = e.what_without_backtrace();
    if (what.find(kOnGpu) != std::string::npos) throw_advice(torch_message(what), recipe, device);
    if (what.find(kOnHost) == std::string::npos) throw;
    throw_on_host(torch_message(what), recipe, device);
  } catch (const std::bad_alloc&) {
    throw_on_host("out of memory", recipe, device);
  }
}

}  // namespace siamese
