// Where memory runs out in a training step: what uses it, and what to change in the recipe.
#pragma once

#include <c10/core/Device.h>

#include <string>
#include <utility>

#include "recipe/recipe.h"
#include "util/error.h"

namespace siamese {

/// A GPU's or the machine's memory does not suffice. what() is one line.
class OutOfMemory : public Error {
 public:
  OutOfMemory(const std::string& what, std::string advice) : Error(what), advice_(std::move(advice)) {}
  /// Lines: what uses memory, and what to change.
  const std::string& advice() const { return advice_; }

 private:
  std::string advice_;
};

/// A message of LibTorch's in one line: without its backtrace, nor the source line in which it wraps a failed
/// allocation on the host.
std::string torch_message(const std::string& what);

/// In a handler: throws OutOfMemory if what is being handled says that memory ran out, the device's or the host's, as
/// LibTorch's allocators, CUDA and C++ say it; throws it again if it says something else.
[[noreturn]] void rethrow_with_advice(const Recipe& recipe, at::Device device);

}  // namespace siamese
