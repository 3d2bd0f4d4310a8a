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
  return has(".att_proj.") || has(".attn_out.") ? "attention" : "feed-forward";
}

}  // namespace

std::string parameter_table(const Params& params) {
  std::map<std::string, int64_t> parts;
  for (const Parameter& p : params.all()) parts[part_of(p)] += p.value.numel();
  std::string text = fmt::format("        {} parameters:", human_count(static_cast<double>(params.count())));
  const char* separator = " ";
  for (const char* part : {"embedding", "attention", "feed-forward", "modulation", "norms", "scheme", "head"}) {
    if (!parts.contains(part)) continue;
    text += fmt::format("{}{} {}", separator, part, human_count(static_cast<double>(parts[part])));
    separator = ", ";
  }
  return text + "\n";
}

}  // namespace siamese
