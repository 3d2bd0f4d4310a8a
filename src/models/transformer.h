// The stack of blocks that all models share: attention and feed-forward over any residual scheme, causal with rotary
// positions (language models) or not (images), with or without a condition that modulates every sub-layer (adaLN-Zero).
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "nn/attention.h"
#include "nn/feed_forward.h"
#include "nn/mixture.h"
#include "nn/params.h"
#include "nn/recompute.h"
#include "nn/rope.h"
#include "recipe/recipe.h"
#include "residual/scheme.h"

namespace siamese {

struct ModelOptions {
  at::ScalarType dtype = at::kFloat;
  at::ScalarType stream_dtype = at::kFloat;
  at::Device device = at::kCPU;
  Recompute recompute = Recompute::feed_forward;  // costs next to nothing, and nothing on the CPU, which keeps all
};

/// DropPath's factors [rows] of a sub-layer: 0 or 1/(1-p), p rising linearly to config.drop_path at the last one. In
/// DeiT, as published, it is that of the block, 0 in the first.
at::Tensor path_scale(const ModelConfig& config, int sublayer, const Forward& forward, int64_t rows,
                      const at::TensorOptions& options);

class Transformer {
 public:
  /// Adds its parameters to `params`, not filled. `causal`: rotary positions, no look ahead. `conditioned`: every block
  /// has a matrix from the condition to shift, scale and gate of both sub-layers, 0 at the start, input norms have no
  /// gain, and the end has no norm of its own.
  Transformer(const ModelConfig& config, const ModelOptions& options, Params& params, bool causal, bool conditioned);
  Transformer(const Transformer&) = delete;
  Transformer& operator=(const Transformer&) = delete;

  /// From the embedding [B, T, d] to what the head sees. `condition` [B, d]: what the blocks' matrices are applied to.
  at::Tensor operator()(const at::Tensor& embedding, const Forward& forward, const at::Tensor& condition = {}) const;

  /// Blocks with a mixture of experts.
  int64_t mixtures() const;
  /// A step of bias-based balancing, from the loads [mixtures, E + …] of all its tokens.
  void balance_experts(const at::Tensor& loads) const;

 private:
  struct Block {
    Attention attention;
    FeedForward feed_forward;        // or
    Mixture mixture;                 // where it has experts
    Linear modulation;               // [d] -> shift, scale, gate of attention, then of the feed-forward
    std::vector<at::Tensor> params;  // all that a run of the block may use
  };
  void add_block(int l, const SchemeContext& context, Params& params);
  void add_feed_forward(Block& block, int l, Params& params) const;
  Streams run_block(const Block& block, int l, Streams streams, const Forward& forward,
                    const at::Tensor& condition) const;
  /// The same with everything inside computed again in the backward pass.
  Streams rerun_block(const Block& block, int l, const Streams& streams, const Forward& forward,
                      const at::Tensor& condition) const;
  Streams sublayer(const Block& block, const Site& site, Streams streams, const Forward& forward,
                   const std::vector<at::Tensor>& modulation) const;

  ModelConfig config_;
  ModelOptions options_;
  const bool conditioned_;
  std::optional<Rope> rope_;
  std::unique_ptr<Scheme> scheme_;
  std::vector<Block> blocks_;
};

}  // namespace siamese
