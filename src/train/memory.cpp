#include "train/memory.h"

#include <unistd.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/expert_layout.h"
#include "ops/attention_norms.h"
#include "ops/gpu_tools.h"
#include "ops/lm_head_loss.h"
#include "train/execution.h"
#include "train/models.h"
#include "util/error.h"
#include "util/text.h"

namespace siamese {
namespace {

bool one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

double stream_count(const ModelConfig& m) {
  if (m.streams > 0) return static_cast<double>(m.streams);
  return one_of(m.scheme, {"siamese", "siamese_hybrid", "resi_dual"}) ? 2 : 1;
}

/// Bytes a token keeps in the mixture of one block: its rows before the activation, what the router read in fp32 (where
/// it is no product in parts, ops/router_product.h), scores and logits, where its rows lie. Plain operators also keep
/// the rows, their activation and the experts' outputs.
double mixture_bytes(const ModelConfig& m, double value, bool gpu) {
  const double d = static_cast<double>(m.d_model), k = static_cast<double>(m.moe.top_k),
               hidden = static_cast<double>(m.moe.expert_hidden_size),
               width = m.activation == "swiglu" ? hidden / 2 : hidden,
               shared = static_cast<double>(m.moe.shared_experts);
  const bool in_parts = gpu && m.fused && m.moe.jitter == 0;
  const double router =
      (value == 2 && !in_parts ? 4 * d : 0) + 2 * 4 * static_cast<double>(m.moe.experts) + k * (2 * 4 + 3 * 8);
  const bool kernels =
      m.fused && (!gpu || (value == 2 && m.activation == "swiglu" &&
                           kernels::experts_fit_kernels(m.moe.experts, m.moe.expert_hidden_size, m.d_model)));
  const double rows = k * value * (kernels ? hidden : 2 * hidden + width + 3 * d);
  return rows + router + shared * value * (hidden + width);
}

/// Gathered inputs and gradients, the activation and the gradients around it: what the rows of a mixture need besides
/// for as long as its backward pass runs.
double mixture_work(const ModelConfig& m, double value) {
  const double d = static_cast<double>(m.d_model), hidden = static_cast<double>(m.moe.expert_hidden_size);
  return static_cast<double>(m.moe.top_k) * value * (3 * d + 2 * hidden);
}

/// Bytes a token keeps of q, k and v: as attention saw them, and what the backward pass of their norms needs of how
/// they were before (all of it, or q, k and ρ; ops/attention_norms.h). Plain operators keep them as they were, turned
/// and in another order.
double heads_bytes(const Recipe& recipe, double value, at::Device device) {
  const ModelConfig& m = recipe.model;
  const int64_t dim = m.d_model / m.n_heads;
  const double qk = static_cast<double>(dim * (m.n_heads + m.n_kv_heads)),
               qkv = qk + static_cast<double>(dim * m.n_kv_heads);
  if (device.is_cpu() || !m.fused || value != 2) return 3 * qkv * value;
  const bool all = one_of(m.scheme, {"hybrid", "hybrid_star", "siamese_hybrid"});
  if (!all && m.qk_norm == "none") return qkv * value;
  const bool inside = all && m.family == "lm" && m.norm == "rms" && m.norm_affine && !m.bias &&
                      m.attention_dropout == 0 && !recipe.data.document_masking &&
                      norms_inside_serve(recipe.train.micro_batch_size, recipe.train.sequence_length,
                                         {m.n_heads, m.n_kv_heads, dim}, m.d_model, device);
  return inside ? (qkv + qk) * value + 4 * qkv / static_cast<double>(dim) : 2 * qkv * value;
}

/// Bytes a token keeps in one block, `mixed` one with experts. Fused on a GPU that is, per sub-layer, each stream after
/// its write; q, k, v, the heads' output and fp32 log-sums; the feed-forward's projection; and what the policy keeps
/// besides. Elsewhere outputs and copies come on top.
MemoryPlan block_of(const Recipe& recipe, Recompute policy, at::Device device, bool mixed) {
  const ModelConfig& m = recipe.model;
  const double value = recipe.train.precision == "bfloat16" ? 2 : 4, stream = m.stream_dtype == "bfloat16" ? 2 : 4;
  const double d = static_cast<double>(m.d_model), heads = static_cast<double>(m.n_heads),
               hidden = static_cast<double>(m.mlp_hidden_size), width = m.activation == "swiglu" ? hidden / 2 : hidden;
  const bool gpu = !device.is_cpu(), kernels = gpu && m.fused;
  const bool keeps_r = !kernels || m.streams > 0 || m.family == "dit" ||  // gated, or normed itself
                       one_of(m.scheme, {"reordered", "sandwich", "peri"});
  const bool rebuilds = kernels && one_of(m.scheme, {"pre", "post", "reordered", "sandwich", "peri", "hybrid",
                                                     "hybrid_star", "resi_dual", "siamese", "siamese_hybrid"});
  MemoryPlan b;
  b.streams = 2 * (stream_count(m) * d * stream + (keeps_r ? d * value : 0));
  b.attention = heads_bytes(recipe, value, device) + value * d + 4 * heads;
  b.feed_forward = value * (m.fused ? hidden : 2 * hidden);
  b.norms = policy >= Recompute::norms && rebuilds ? 0 : 2 * d * value;
  b.activated = policy >= Recompute::feed_forward && kernels ? 0 : width * value;
  if (mixed) {
    b.feed_forward = b.activated = 0;
    b.experts = mixture_bytes(m, value, gpu);
    b.norms = std::max(b.norms, d * value);  // router and experts read it both: it stays
  }
  return b;
}

double head_bytes(const Recipe& recipe, bool gpu) {
  const ModelConfig& m = recipe.model;
  if (m.family != "lm") return 0;  // a row a picture, or as wide as a patch
  const int64_t rows = recipe.train.micro_batch_size * recipe.train.sequence_length;
  const double n = static_cast<double>(rows), vocab = static_cast<double>(m.vocab_size),
               d = static_cast<double>(m.d_model);
  if (!m.fused) return 3 * 4 * n * vocab;  // logits, their logarithms, their gradient
  const int64_t value = recipe.train.precision == "bfloat16" ? 2 : 4,
                chunk = head_chunk_rows(rows, m.vocab_size, value, gpu);
  const double sums = chunk < rows && value == 2 ? 4 * vocab * d : 0;  // of the weight's gradient over the chunks
  return static_cast<double>(value) * (static_cast<double>(chunk) * vocab + 2 * n * d) + sums;
}

/// What one block needs besides for as long as its backward pass runs, where no head's logits took as much before: a
/// mixture its rows, another one gradients of the activation's output and input, and of what the sub-layer reads,
/// writes and leaves.
double block_work(const ModelConfig& m, double value) {
  if (m.moe.experts > 0) return mixture_work(m, value);
  return m.family == "lm" ? 0 : value * static_cast<double>(2 * m.mlp_hidden_size + 3 * m.d_model);
}

/// The largest micro-batch of at most half of `micro` that divides the batch, or 0.
int64_t half_or_less(int64_t batch, int64_t micro) {
  int64_t half = micro / 2;
  while (half > 0 && batch % half != 0) --half;
  return half;
}

std::string lower(const MemoryPlan& now, const MemoryPlan& then) {
  return human_bytes(std::max(0.0, now.total() - then.total()));
}

}  // namespace

double memory_of(at::Device device) {
  if (device.is_cpu()) return static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  return gpu_tools() != nullptr ? static_cast<double>(gpu_tools()->total_bytes()) : 0;
}

MemoryPlan plan_memory(const Recipe& recipe, int64_t parameters, Recompute policy, at::Device device) {
  const TrainConfig& t = recipe.train;
  const bool gpu = !device.is_cpu(), low = t.precision == "bfloat16";
  const double n = static_cast<double>(parameters), blocks = static_cast<double>(recipe.model.n_layers),
               tokens = static_cast<double>(t.micro_batch_size * tokens_per_sample(recipe));
  MemoryPlan p;
  p.parameters = n * (low ? 2 : 4);
  // A GPU takes one micro-batch's gradients in the parameters' type and adds up several in fp32.
  const bool several = t.micro_batch_size != t.batch_size;
  p.gradients = gpu ? p.parameters + (several ? 4 * n : 0) : 4 * n;
  p.optimizer = n * (low ? 12 : 8);
  p.average = t.ema > 0 ? 4 * n : 0;
  // Recomputed, a block leaves its streams and pending update, and one block at a time is there in full.
  const bool again = policy == Recompute::block;
  const MoeConfig& moe = recipe.model.moe;
  const double dense = moe.experts > 0 ? static_cast<double>(moe.dense_blocks) : blocks;
  const auto add = [&](bool mixed, double times) {
    const MemoryPlan block = block_of(recipe, policy, device, mixed);
    p.streams += times * block.streams;
    p.attention += times * block.attention;
    p.feed_forward += times * block.feed_forward;
    p.experts += times * block.experts;
    p.norms += times * block.norms;
    p.activated += times * block.activated;
  };
  if (again) {
    add(moe.experts > 0, tokens);
  } else {
    add(false, tokens * dense);
    add(true, tokens * (blocks - dense));
  }
  p.work = tokens * block_work(recipe.model, low ? 2 : 4);
  if (again) {
    const double stream = recipe.model.stream_dtype == "bfloat16" ? 2 : 4;
    p.streams +=
        tokens * blocks * static_cast<double>(recipe.model.d_model) * (stream_count(recipe.model) + 1) * stream;
  }
  p.head = head_bytes(recipe, gpu);
  return p;
}

std::string memory_lines(const Recipe& recipe, int64_t parameters, at::Device device) {
  const Recompute policy = recompute_of(recipe, device);
  const MemoryPlan p = plan_memory(recipe, parameters, policy, device);
  std::string text =
      fmt::format("memory  parameters {}, gradients {}, optimizer {}{}, activations about {}; together about {}\n",
                  human_bytes(p.parameters), human_bytes(p.gradients), human_bytes(p.optimizer),
                  p.average > 0 ? ", averaged weights " + human_bytes(p.average) : "", human_bytes(p.activations()),
                  human_bytes(p.total()));
  if (const double has = memory_of(device); has > 0 && p.total() > has)
    text += fmt::format("        that is more than the {} of this {}\n", human_bytes(has),
                        device.is_cpu() ? "machine" : "GPU");
  const MemoryPlan all = plan_memory(recipe, parameters, Recompute::none, device);
  text += fmt::format("        recompute {}; against none", recompute_name(policy));
  const char* separator = " ";
  for (const Recompute other : {Recompute::norms, Recompute::feed_forward, Recompute::block}) {
    if (device.is_cpu() && other != Recompute::block) continue;
    text += fmt::format("{}{} saves {}", separator, recompute_name(other),
                        lower(all, plan_memory(recipe, parameters, other, device)));
    separator = ", ";
  }
  return text + "\n";
}

std::string measured_memory(at::Device device) {
  if (device.is_cpu()) return "";
  return human_bytes(static_cast<double>(gpu_tools()->peak_bytes()));
}

std::string memory_table(const MemoryPlan& p) {
  const std::pair<const char*, double> rows[] = {
      {"parameters", p.parameters},         {"gradients", p.gradients},
      {"optimizer", p.optimizer},           {"averaged weights", p.average},
      {"residual streams", p.streams},      {"attention", p.attention},
      {"feed-forward", p.feed_forward},     {"experts", p.experts},
      {"one block at work", p.work},        {"inputs of sub-layers", p.norms},
      {"activation's output", p.activated}, {"head", p.head},
      {"together about", p.total()}};
  std::string text;
  for (const auto& [name, bytes] : rows)
    if (bytes > 0) text += fmt::format("  {:<22}{:>10}\n", name, human_bytes(bytes));
  return text;
}

std::string memory_advice(const Recipe& recipe, int64_t parameters, at::Device device) {
  const Recompute policy = recompute_of(recipe, device);
  const MemoryPlan p = plan_memory(recipe, parameters, policy, device);
  std::string text = "what uses memory:\n" + memory_table(p);
  if (const double has = memory_of(device); has > 0)
    text += fmt::format("  {:<22}{:>10}\n", device.is_cpu() ? "this machine has" : "this GPU has", human_bytes(has));
  const auto advise = [&](std::string_view key, const std::string& now, const std::string& to, const Recipe& changed,
                          Recompute then) {
    const MemoryPlan other = plan_memory(changed, parameters, then, device);
    if (other.total() < p.total()) text += fmt::format("  {} (now {}): {} saves {}\n", key, now, to, lower(p, other));
  };
  text += "what to change:\n";
  const size_t nothing = text.size();
  Recipe changed = recipe;
  const int64_t micro = recipe.train.micro_batch_size;
  if (const int64_t half = half_or_less(recipe.train.batch_size, micro); half > 0) {
    changed.train.micro_batch_size = half;
    advise("train.micro_batch_size", fmt::format("{}", micro), fmt::format("{}", half), changed, policy);
  }
  for (const Recompute other : {Recompute::feed_forward, Recompute::block})
    if (other > policy && (!device.is_cpu() || other == Recompute::block))
      advise("train.recompute", recompute_name(policy), recompute_name(other), recipe, other);
  changed = recipe;
  changed.model.stream_dtype = "bfloat16";
  advise("model.stream_dtype", recipe.model.stream_dtype, "bfloat16", changed, policy);
  if (text.size() == nothing || p.activations() < p.total() / 2)
    text += fmt::format("  the model: fewer model.n_layers, a smaller model.d_model{}\n",
                        recipe.model.family == "lm" ? " or model.vocab_size" : "");
  return text;
}

}  // namespace siamese
