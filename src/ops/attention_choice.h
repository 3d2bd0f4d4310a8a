// Who attends on a GPU. Forward: cuDNN, the fastest, where it can be trusted, otherwise our own kernels, otherwise
// flash attention. Backward: our own kernels where they serve and cuDNN's are not faster (ops/attention.cpp), otherwise
// the library of the forward pass. Decided by trying each once for each shape of the heads, on examples short and long,
// against plain attention in fp32.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>

#include "ops/attention_library.h"

namespace siamese {

struct AttentionShape {
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  auto operator<=>(const AttentionShape&) const = default;
};

struct AttentionChoice {
  bool cudnn = false;
  std::string why;
  bool own = false;

  /// "cudnn+own", "own", "cudnn" or "flash".
  std::string name() const;
};

/// For this shape on this device; tried the first time it is asked for. Where algorithms must be deterministic, which
/// cuDNN's backward pass is not, it is not tried.
const AttentionChoice& attention_choice(const AttentionShape& shape, at::Device device);

/// "cudnn+own (cuDNN's error against plain attention is 0.0031, flash attention's 0.003; our own 0.003)"
std::string attention_backend(const AttentionShape& shape, at::Device device);

/// The rule. `version` as cuDNN counts it, 91501 for 9.15.1; the trials return an error as below, or throw where the
/// library refuses. cuDNN must be at most twice as far off as flash attention is.
AttentionChoice choose_attention(long version, const std::function<double()>& cudnn,
                                 const std::function<double()>& flash);

/// Attention and its gradients: out, and q, k, v of `gradient`.
struct AttentionResult {
  at::Tensor out;
  Heads gradient;
};

/// Random q, k, v and gradient of the output, in bf16, and what attention must make of them.
struct AttentionExample {
  Heads heads;
  at::Tensor g;
  AttentionResult wanted;  // in fp32
};
AttentionExample attention_example(const AttentionShape& shape, int64_t rows, int64_t length, at::Device device);

/// The largest relative error, in the norm, of the four; 1e30 where one is not finite.
double attention_error(const AttentionResult& got, const AttentionResult& wanted);

}  // namespace siamese
