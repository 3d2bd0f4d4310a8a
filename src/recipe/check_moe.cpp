// Mixtures of experts in a recipe: sizes that are left open, and combinations that cannot work.
#include "recipe/clash.h"
#include "recipe/schema.h"

namespace siamese {
namespace {

constexpr std::string_view kGroup = "model.moe.", kExperts = "model.moe.experts";
constexpr int64_t kWidthStep = 16;  // what matrix units like

/// Without experts no other key of the group means anything.
void forget_mixture(Draft& draft) {
  for (const Field& field : fields()) {
    if (!field.path.starts_with(kGroup) || field.path == kExperts) continue;
    if (get(field, draft.recipe) == default_of(field)) continue;
    if (layer_of(draft, field.path) >= layer_of(draft, kExperts))
      clash(draft, {field.path}, "{} needs model.moe.experts above 0", field.path);
    set(field, draft.recipe, default_of(field));
  }
}

}  // namespace

void settle_mixture(Draft& draft) {
  ModelConfig& m = draft.recipe.model;
  MoeConfig& moe = m.moe;
  if (moe.experts == 0) return forget_mixture(draft);
  if (m.family != "lm")
    clash(draft, {kExperts, "model.family"}, "model.moe.experts ({}) is for model.family lm, not {}", moe.experts,
          m.family);
  if (moe.top_k > moe.experts)
    clash(draft, {"model.moe.top_k", kExperts}, "model.moe.top_k ({}) is more than model.moe.experts ({})", moe.top_k,
          moe.experts);
  if (moe.dense_blocks >= m.n_layers)
    clash(draft, {"model.moe.dense_blocks", "model.n_layers"},
          "model.moe.dense_blocks ({}) leaves no block of model.n_layers ({}) to the experts", moe.dense_blocks,
          m.n_layers);
  if (m.bias)
    clash(draft, {"model.bias", kExperts}, "model.bias does not go with model.moe.experts ({}): experts have no biases",
          moe.experts);
  if (moe.expert_hidden_size == 0) {
    const int64_t share = (m.mlp_hidden_size + moe.top_k - 1) / moe.top_k;
    moe.expert_hidden_size = (share + kWidthStep - 1) / kWidthStep * kWidthStep;
  }
  if (m.activation == "swiglu" && moe.expert_hidden_size % 2 != 0)
    clash(draft, {"model.moe.expert_hidden_size", "model.activation"},
          "model.moe.expert_hidden_size ({}) must be even: model.activation swiglu splits it in two halves",
          moe.expert_hidden_size);
}

}  // namespace siamese
