// The language model (OLMo's sequential block), dense or with mixtures of experts, over any residual scheme.
#pragma once

#include <memory>

#include "models/transformer.h"
#include "nn/params.h"
#include "ops/head_scores.h"
#include "recipe/recipe.h"

namespace siamese {

struct LmLoss {
  at::Tensor
      total;  // what is differentiated: scale · (ce + z_weight · mean logsumexp² + the mixtures' weighted losses)
  at::Tensor ce;  // mean cross entropy, for reports: it has no gradient where the head is fused
  // Mixtures, without gradients: balance loss and mean logsumexp² of the routers, not weighted, means over the blocks
  // that have one; and what went to whom, [mixtures, E + 2] (nn/forward.h). Undefined in a dense model.
  at::Tensor balance = {}, router_z = {}, loads = {};
};

class LanguageModel {
 public:
  /// Parameters are allocated, not filled: call `params().initialise(seed)` or load weights.
  LanguageModel(const ModelConfig& config, const ModelOptions& options);
  LanguageModel(const LanguageModel&) = delete;
  LanguageModel& operator=(const LanguageModel&) = delete;

  Params& params() { return params_; }
  const Params& params() const { return params_; }
  const ModelConfig& config() const { return config_; }

  /// ids [B, T] -> what the head sees [B, T, d].
  at::Tensor hidden(const at::Tensor& ids, const Forward& forward) const;
  at::Tensor logits(const at::Tensor& hidden) const;
  /// Mean next-token loss of ids [B, T+1]; targets equal to `ignore` do not count. `scale` is a factor of the total and
  /// its gradients, as 1/micro-batches, that costs nothing where the head is fused.
  LmLoss loss(const at::Tensor& ids, const Forward& forward, double z_weight = 0.0, int64_t ignore = -100,
              double scale = 1.0) const;

  /// Summed next-token loss and hits of hidden [B, T, d] for targets [B, T], without gradients (ops/head_scores.h).
  HeadScores scores(const at::Tensor& hidden, const at::Tensor& targets, int64_t ignore = -100) const;

  KvCache make_cache(int64_t batch, int64_t capacity) const;

  /// Blocks with a mixture of experts.
  int64_t mixtures() const { return stack_->mixtures(); }
  /// After a step, with the loads of all its tokens: biases move where the recipe balances by them.
  void balance_experts(const at::Tensor& loads) const;

 private:
  ModelConfig config_;
  ModelOptions options_;
  Params params_;
  at::Tensor embedding_, head_;
  std::unique_ptr<Transformer> stack_;
};

/// [B, T] numbers of the documents in ids: a new one begins after each `eos`.
at::Tensor document_numbers(const at::Tensor& ids, int64_t eos);

}  // namespace siamese
