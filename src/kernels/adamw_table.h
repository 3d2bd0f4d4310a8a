// What AdamW's kernels read and write besides the tensors themselves: plain values, the same on the host that fills
// them and on the device. No CUDA here, so that the host side compiles without it.
#pragma once

#include <cstdint>

namespace siamese::kernels {

/// A parameter with its state. Addresses are the device's.
struct AdamwTensor {
  void* parameter;  // bf16 copy of the master weights; null where the parameter is the master itself
  float* master;
  float* m;
  float* v;
  float* average;  // null: no averaged weights
  int64_t count;
  int64_t offset;  // of its place among the summed gradients; a multiple of 8
  int64_t decays;  // 0 or 1
  double rate;     // factor on the learning rate
};

struct AdamwGradient {
  const void* data;  // null: zero
  int64_t bf16;      // 1: bf16, 0: fp32
};

/// Elements number·kAdamwChunk … of a tensor: the work of one thread block.
struct AdamwChunk {
  int32_t tensor, number;
};
inline constexpr int kAdamwChunk = 16384;

/// Lives on the device; nothing in a step waits for it to be read. All fp64, so that it is one tensor for the host.
struct AdamwControl {
  double lr, step;                                             // of the coming step (from 1); written before it
  double clip, beta1, beta2, eps, weight_decay, average_rate;  // written once; clip 0: off; average_rate: 1 - ema
  double loss, norm, bad_step;  // what the step found; bad_step: the first whose loss or norm is not finite, or 0
  double scale;                 // of the gradients, from clipping
  double step_size, over_root;  // lr / (1 - beta1^step), 1 / sqrt(1 - beta2^step)
};

}  // namespace siamese::kernels
