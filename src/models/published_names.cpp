#include "models/published_names.h"

#include <array>
#include <string_view>
#include <utility>

namespace siamese {
namespace {

using Pair = std::pair<std::string_view, std::string_view>;  // ours, theirs

// In the blocks of either: x's norms are called post, y's pre. At the end DeiT has it the other way round.
constexpr std::array<Pair, 10> kDeitBlock = {{{"attn_norm", "post_norm1"},
                                              {"ff_norm", "post_norm2"},
                                              {"attn_y_norm", "pre_norm1"},
                                              {"ff_y_norm", "pre_norm2"},
                                              {"attn_input_norm", "input_norm1"},
                                              {"ff_input_norm", "input_norm2"},
                                              {"att_proj", "attn.qkv"},
                                              {"attn_out", "attn.proj"},
                                              {"ff_proj", "mlp.fc1"},
                                              {"ff_out", "mlp.fc2"}}};
constexpr std::array<Pair, 9> kDitBlock = {{{"attn_norm", "postnorm1"},
                                            {"ff_norm", "postnorm2"},
                                            {"attn_y_norm", "prenorm1"},
                                            {"ff_y_norm", "prenorm2"},
                                            {"att_proj", "attn.qkv"},
                                            {"attn_out", "attn.proj"},
                                            {"ff_proj", "mlp.fc1"},
                                            {"ff_out", "mlp.fc2"},
                                            {"adaln", "adaLN_modulation.1"}}};
constexpr std::array<Pair, 4> kDeit = {{{"patch_embed", "patch_embed.proj"},
                                        {"transformer.ln_f", "pre_norm"},
                                        {"transformer.ln_y_f", "post_norm"},
                                        {"transformer.ln_final_f", "final_norm"}}};
constexpr std::array<Pair, 8> kDit = {{{"patch_embed", "x_embedder.proj"},
                                       {"time_embed.in", "t_embedder.mlp.0"},
                                       {"time_embed.out", "t_embedder.mlp.2"},
                                       {"label_embed", "y_embedder.embedding_table"},
                                       {"final.adaln", "final_layer.adaLN_modulation.1"},
                                       {"final.linear", "final_layer.linear"},
                                       {"transformer.ln_f", "postnorm"},
                                       {"transformer.ln_y_f", "prenorm"}}};

template <size_t n>
std::string renamed(const std::array<Pair, n>& table, const std::string& name) {
  const size_t dot = name.rfind('.');  // before weight or bias
  const std::string stem = name.substr(0, dot);
  for (const auto& [ours, theirs] : table)
    if (stem == ours) return std::string(theirs) + (dot == std::string::npos ? "" : name.substr(dot));
  return name;
}

}  // namespace

std::string published_name(const std::string& family, const std::string& ours) {
  constexpr std::string_view kBlocks = "transformer.blocks.";
  const bool dit = family == "dit";
  if (!ours.starts_with(kBlocks)) return dit ? renamed(kDit, ours) : renamed(kDeit, ours);
  const size_t dot = ours.find('.', kBlocks.size());
  const std::string block = ours.substr(kBlocks.size(), dot - kBlocks.size()), part = ours.substr(dot + 1);
  return "blocks." + block + "." + (dit ? renamed(kDitBlock, part) : renamed(kDeitBlock, part));
}

}  // namespace siamese
