// Parameters by part, for the start-up print and `siamese info`.
#include <map>

#include "train/models.h"
#include "util/error.h"
#include "util/text.h"

namespace siamese {
namespace {

std::string part_of(const Parameter& p) {
  auto has = [&](const char* text) { return p.name.find(text) != std::string::npos; };
  if (p.kind == ParamKind::embedding) return "embedding";
  if (p.name == "transformer.ff_out.weight" || p.name.starts_with("head") || p.name.starts_with("final."))
    return "head";
  if (p.name.starts_with("patch_embed") || p.name.starts_with("time_embed")) return "embedding";
  if (has(".adaln.")) return "modulation";
  if (has("_hc.") || has(".c1")) return "scheme";
  if (p.kind == ParamKind::norm) return "norms";
  if (has(".moe.")) return has(".moe.router.") ? "routers" : has(".moe.shared") ? "shared experts" : "experts";
  return has(".att_proj.") || has(".attn_out.") ? "attention" : "feed-forward";
}

}  // namespace

std::string feed_forward_words(const ModelConfig& m) {
  if (m.moe.experts > 0 && m.moe.dense_blocks == 0) return "experts";
  return fmt::format("feed-forward {}", m.mlp_hidden_size);
}

std::string mixture_line(const ModelConfig& m) {
  const MoeConfig& moe = m.moe;
  if (moe.experts == 0) return "";
  std::string text =
      fmt::format("        {} experts of {}, {} a token", moe.experts, moe.expert_hidden_size, moe.top_k);
  if (moe.shared_experts > 0) text += fmt::format(" and {} shared", moe.shared_experts);
  if (moe.dense_blocks > 0) text += fmt::format(", {} dense blocks before them", moe.dense_blocks);
  text += fmt::format("; {} scores{}, balanced by {}", moe.score, moe.renormalize ? " renormalized" : "",
                      moe.balance == "none" ? "nothing" : "a " + moe.balance);
  if (moe.capacity_factor > 0) text += fmt::format(", capacity {:g} times the mean", moe.capacity_factor);
  return text + "\n";
}

std::string parameter_table(const Params& params, const ModelConfig& config) {
  std::map<std::string, int64_t> parts;
  for (const Parameter& p : params.all())
    if (p.kind != ParamKind::state) parts[part_of(p)] += p.value.numel();
  std::string text = fmt::format("        {} parameters", human_count(static_cast<double>(params.count())));
  if (config.moe.experts > 0)
    text += fmt::format(", {} active", human_count(static_cast<double>(active_parameters(params, config))));
  const char* separator = ": ";
  for (const char* part : {"embedding", "attention", "feed-forward", "experts", "shared experts", "routers",
                           "modulation", "norms", "scheme", "head"}) {
    if (!parts.contains(part)) continue;
    text += fmt::format("{}{} {}", separator, part, human_count(static_cast<double>(parts[part])));
    separator = ", ";
  }
  return text + "\n";
}

}  // namespace siamese
