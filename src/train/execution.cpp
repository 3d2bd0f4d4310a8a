#include "train/execution.h"

#include <ATen/ATen.h>

#include <nlohmann/json.hpp>

#include "nn/attention.h"
#include "ops/attention.h"
#include "ops/attention_choice.h"
#include "ops/expert_ops.h"
#include "ops/gpu_tools.h"
#include "ops/own_attention.h"
#include "train/device.h"
#include "train/models.h"
#include "util/error.h"

namespace siamese {
namespace {

bool use_graph(const Recipe& recipe, at::Device device) {
  const std::string& wish = recipe.train.graph;
  const GraphObstacle obstacle = graph_obstacle(recipe, device);
  const bool gpu = device.is_cuda() && gpu_tools() != nullptr;
  if (wish == "on" && !gpu) fail("train.graph is on, but this run is on {}: use auto", device.str());
  if (wish == "on" && !obstacle.key.empty()) fail("train.graph is on, but {} {}", obstacle.key, obstacle.why);
  return wish != "off" && gpu && obstacle.key.empty();
}

struct Attending {
  std::string by, why;  // why: where it was found by trying
};

/// What attention the model will take on a GPU.
Attending attention_of(const Recipe& recipe, at::Device device) {
  const ModelConfig& m = recipe.model;
  AttentionCore core;
  core.heads = m.n_heads, core.kv_heads = m.n_kv_heads, core.head_dim = m.d_model / m.n_heads;
  const auto type = recipe.train.precision == "bfloat16" ? at::kBFloat16 : at::kFloat;
  if (m.family != "lm") {  // as in Attention::packs_both_ways; the hybrids norm queries and keys
    const bool own = m.fused && type == at::kBFloat16 && m.attention_dropout == 0 && m.qk_norm == "none" &&
                     m.scheme.find("hybrid") == std::string::npos &&
                     tokens_per_sample(recipe) <= Attention::kLongestBothWays &&
                     own_attention_fits(core.head_dim, device);
    return {own ? "own" : "LibTorch's", ""};
  }
  const at::Tensor qkv = at::empty({1, 1, (core.heads + 2 * core.kv_heads) * core.head_dim},
                                   at::TensorOptions().device(device).dtype(type));
  if (!m.fused || m.attention_dropout > 0 || m.qk_norm == "projection" || !attention_core_fits(qkv, core))
    return {"plain", ""};
  if (recipe.data.document_masking) return {"flash", ""};  // the one with documents of several lengths
  const AttentionChoice& choice = attention_choice({core.heads, core.kv_heads, core.head_dim}, device);
  return {choice.name(), choice.why};
}

}  // namespace

GraphObstacle graph_obstacle(const Recipe& recipe, at::Device device) {
  const GraphObstacle obstacle = graph_obstacle(recipe);
  const ModelConfig& m = recipe.model;
  if (!obstacle.key.empty() || m.moe.experts == 0) return obstacle;
  const int64_t w1[] = {m.moe.experts, m.moe.expert_hidden_size, m.d_model};
  if (expert_kernels_serve(w1, at::kBFloat16, device)) return {};
  return {"model.moe.experts", kExpertsWithoutKernels};
}

Recompute recompute_of(const Recipe& recipe, at::Device device) {
  const std::string& wish = recipe.train.recompute;
  for (const Recompute policy : {Recompute::none, Recompute::norms, Recompute::feed_forward, Recompute::block})
    if (wish == recompute_name(policy)) return policy;
  return device.is_cpu() ? Recompute::none : Recompute::feed_forward;
}

const char* recompute_name(Recompute policy) {
  switch (policy) {
    case Recompute::none:
      return "none";
    case Recompute::norms:
      return "norms";
    case Recompute::feed_forward:
      return "feed_forward";
    case Recompute::block:
      return "block";
  }
  return "";
}

bool recompute_serves(Recompute policy, at::Device device) {
  return !device.is_cpu() || policy == Recompute::none || policy == Recompute::block;
}

Execution check_execution(const Recipe& recipe, at::Device device) {
  Execution e;
  e.device = device;
  e.recompute = recompute_of(recipe, device);
  if (!recompute_serves(e.recompute, device))
    fail("train.recompute is {}, which only the kernels of a GPU can: use none, block or auto on a CPU",
         recompute_name(e.recompute));
  e.graph = use_graph(recipe, device);
  return e;
}

Execution prepare_execution(const Recipe& recipe, at::Device device) {
  Execution e = check_execution(recipe, device);
  if (device.is_cuda()) {
    e.deterministic = recipe.train.deterministic;
    set_deterministic(e.deterministic);
    const Attending attending = attention_of(recipe, device);
    e.attention = attending.by, e.attention_why = attending.why;
  }
  return e;
}

std::string Execution::describe() const {
  return fmt::format("{}deterministic{}{}", deterministic ? "" : "not ",
                     attention.empty() ? "" : ", attention " + attention, graph ? ", steps as a CUDA graph" : "");
}

std::string Execution::json(int64_t step) const {
  const Versions v = versions();
  nlohmann::ordered_json j;
  j["from_step"] = step;
  j["device"] = device.str();
  if (device.is_cuda() && gpu_tools() != nullptr) j["device_name"] = gpu_tools()->device_name();
  j["deterministic"] = deterministic;
  if (!attention.empty()) j["attention"] = attention;
  if (!attention_why.empty()) j["attention_why"] = attention_why;
  j["graph"] = graph;
  j["recompute"] = recompute_name(recompute);
  j["versions"] = {{"revision", v.revision}, {"libtorch", v.libtorch}, {"cuda", v.cuda}, {"cudnn", v.cudnn}};
  return j.dump(2) + "\n";
}

}  // namespace siamese
