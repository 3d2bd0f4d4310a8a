// What a training step keeps in memory, estimated from the sizes in the recipe: for the start-up print, `siamese info`
// and the message when there is not enough of it.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>

#include "nn/recompute.h"
#include "recipe/recipe.h"

namespace siamese {

/// Bytes. The activations are those of one micro-batch when its backward pass begins.
struct MemoryPlan {
  double parameters = 0, gradients = 0, optimizer = 0, average = 0;
  double streams = 0;       // residual streams as the sub-layers left them
  double attention = 0;     // q, k, v, the heads' output
  double feed_forward = 0;  // what goes into the activation
  double experts = 0;       // what goes into the activation of a token's experts, the routers' scores, who goes where
  double work = 0;          // rows of one block while its backward pass runs: of a mixture, or without a head
  double norms = 0;         // what the sub-layers read, where it is kept
  double activated = 0;     // the activation's output, where it is kept
  double head = 0;          // logits of a chunk and the head's gradients

  double activations() const { return streams + attention + feed_forward + experts + work + norms + activated + head; }
  double total() const { return parameters + gradients + optimizer + average + activations(); }
};

/// `parameters`: how many the model has. The recipe's vocabulary must be settled.
MemoryPlan plan_memory(const Recipe& recipe, int64_t parameters, Recompute policy, at::Device device);

/// Bytes of memory that the device has; 0 where there is no such device here.
double memory_of(at::Device device);

/// Lines for the start of a run: the plan, whether it is more than the device here has, and what each policy of
/// train.recompute saves.
std::string memory_lines(const Recipe& recipe, int64_t parameters, at::Device device);

/// A line a part that there is, and one for all.
std::string memory_table(const MemoryPlan& plan);

/// The most memory of the GPU that was taken so far; empty on a CPU.
std::string measured_memory(at::Device device);

/// A table of what uses memory and of how much there is, and what to change in the recipe with what that saves.
std::string memory_advice(const Recipe& recipe, int64_t parameters, at::Device device);

}  // namespace siamese
