// Writing text: one token at a time, with or without the key-value cache.
#pragma once

#include <functional>
#include <vector>

#include "models/language_model.h"

namespace siamese {

struct SamplingOptions {
  int64_t tokens = 200;      // how many to write
  double temperature = 1.0;  // 0: always the most likely one
  int64_t top_k = 0;         // 0: all
  double top_p = 1.0;
  int64_t seed = 1;
  int64_t stop = -1;  // an id that ends the text; -1: none
  bool cache = true;
};

/// The id chosen from logits [vocab]; random numbers are keyed by seed and position, nothing else.
int64_t choose(const at::Tensor& logits, const SamplingOptions& options, int64_t position);

/// Continues `prompt` (at least one id); calls `emit` with each new id and its logits [vocab] and stops when it returns
/// false. Returns the new ids.
std::vector<int64_t> generate(const LanguageModel& model, const std::vector<int64_t>& prompt,
                              const SamplingOptions& options,
                              const std::function<bool(int64_t, const at::Tensor&)>& emit = {});

}  // namespace siamese
