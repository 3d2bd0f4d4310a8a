#include "train/out_of_memory.h"

#include <c10/util/Exception.h>

#include <new>

#include "train/memory.h"
#include "train/models.h"

namespace siamese {
namespace {

/// LibTorch's messages are followed by a backtrace, and a failed allocation on the host is wrapped in the source line
/// that noticed it.
std::string one_line(const std::string& message) {
  const std::string line = message.substr(0, message.find('\n'));
  const size_t at = line.find("DefaultCPUAllocator: ");
  return at == std::string::npos ? line : "out of memory: " + line.substr(line.find(": ", at) + 2);
}

[[noreturn]] void throw_advice(const std::string& what, Recipe recipe, at::Device device) {
  if (recipe.model.vocab_size == 0) recipe.model.vocab_size = kByteVocabulary;  // the run is gone, and the data's
  if (recipe.model.classes == 0) recipe.model.classes = 10;
  throw OutOfMemory(what, memory_advice(recipe, count_parameters(recipe), device));
}

}  // namespace

void rethrow_with_advice(const Recipe& recipe, at::Device device) {
  try {
    throw;
  } catch (const c10::OutOfMemoryError& e) {
    throw_advice(one_line(e.what_without_backtrace()), recipe, device);
  } catch (const c10::Error& e) {
    const std::string what = e.what_without_backtrace();
    if (what.find("DefaultCPUAllocator: ") == std::string::npos) throw;
    throw_advice(one_line(what), recipe, device);
  } catch (const std::bad_alloc&) {
    throw_advice("out of memory", recipe, device);
  }
}

}  // namespace siamese
