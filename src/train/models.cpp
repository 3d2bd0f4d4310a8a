#include "train/models.h"

#include <ATen/ATen.h>

#include <cmath>

#include "nn/patches.h"
#include "nn/tensor_io.h"
#include "train/execution.h"
#include "util/error.h"

namespace siamese {
namespace {

ModelOptions options_of(const Recipe& recipe, at::Device device) {
  ModelOptions options;
  options.dtype = recipe.train.precision == "bfloat16" ? at::kBFloat16 : at::kFloat;
  options.stream_dtype = recipe.model.stream_dtype == "bfloat16" ? at::kBFloat16 : at::kFloat;
  options.device = device;
  options.recompute = recompute_of(recipe, device);
  return options;
}

}  // namespace

std::unique_ptr<LanguageModel> make_lm(const Recipe& recipe, at::Device device) {
  return std::make_unique<LanguageModel>(recipe.model, options_of(recipe, device));
}
std::unique_ptr<DeiT> make_deit(const Recipe& recipe, at::Device device) {
  return std::make_unique<DeiT>(recipe.model, options_of(recipe, device));
}
std::unique_ptr<DiT> make_dit(const Recipe& recipe, at::Device device) {
  return std::make_unique<DiT>(recipe.model, options_of(recipe, device));
}

void load_weights(const SafetensorsFile& file, const Params& params) {
  const char* const kPositions = "pos_embed";
  // Said before positions are compared: a second token shifts every one of them.
  const bool second = file.tensors().contains("dist_token");
  if (file.tensors().contains(kPositions) && params.has(kPositions) && second != params.has("dist_token"))
    fail("{}: its model.distilled is {}, that of this model {}; both must be the same", file.name(), second, !second);
  NamedTensors into;
  std::set<std::string> spare;
  for (const Parameter& p : params.all()) {
    const auto stored = file.tensors().find(p.name);
    if (p.kind == ParamKind::state && stored == file.tensors().end()) continue;
    const bool resized = p.name == kPositions && stored != file.tensors().end() &&
                         stored->second.shape != p.value.sizes().vec() && stored->second.shape.size() == 3;
    if (!resized) {
      into.emplace_back(p.name, p.value);
      continue;
    }
    const at::NoGradGuard no_grad;
    const int64_t prefix = params.has("dist_token") ? 2 : 1, patches = p.value.size(1) - prefix,
                  side = std::llround(std::sqrt(static_cast<double>(patches)));
    at::Tensor(p.value).copy_(resize_positions(to_tensor(stored->second), prefix, side));
    spare.insert(p.name);
  }
  // Biases that balance experts come and go with the kind of balancing; new ones begin at 0.
  for (const auto& [name, tensor] : file.tensors())
    if (name.ends_with(".moe.balance_bias")) spare.insert(name);
  load_tensors(file, into, "", spare);
}

Recipe without_data(Recipe recipe) {
  if (recipe.model.vocab_size == 0) recipe.model.vocab_size = 256;
  if (recipe.model.classes == 0) recipe.model.classes = 10;
  return recipe;
}

int64_t count_parameters(const Recipe& recipe) {
  const Recipe settled = without_data(recipe);
  if (recipe.model.family == "deit") return make_deit(settled, at::kMeta)->params().count();
  if (recipe.model.family == "dit") return make_dit(settled, at::kMeta)->params().count();
  return make_lm(settled, at::kMeta)->params().count();
}

int64_t active_parameters(const Params& params, const ModelConfig& config) {
  int64_t n = 0;
  for (const Parameter& p : params.all()) {
    if (p.kind == ParamKind::state) continue;
    const bool routed = p.name.ends_with(".moe.w1") || p.name.ends_with(".moe.w2");
    n += routed ? p.value.numel() / config.moe.experts * config.moe.top_k : p.value.numel();
  }
  return n;
}

int64_t tokens_per_sample(const Recipe& recipe) {
  const ModelConfig& m = recipe.model;
  if (m.family == "lm") return recipe.train.sequence_length;
  const int64_t side = m.image_size / m.patch_size, patches = side * side;
  return m.family == "deit" ? patches + (m.distilled ? 2 : 1) : patches;
}

}  // namespace siamese
