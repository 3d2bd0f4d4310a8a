#include "models/parity_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "util/error.h"

namespace siamese {
namespace {

using nlohmann::json;

template <class T>
T get(const json& j, const char* key, T otherwise) {
  return j.contains(key) && !j[key].is_null() ? j[key].get<T>() : otherwise;
}

int64_t need(const json& j, const char* key, const std::string& file) {
  if (!j.contains(key) || !j[key].is_number_integer()) fail("{}: config has no whole number '{}'", file, key);
  return j[key].get<int64_t>();
}

void common(const json& j, const std::string& file, ModelConfig& c) {
  c.d_model = need(j, "d_model", file);
  c.n_layers = need(j, "n_layers", file);
  c.n_heads = need(j, "n_heads", file);
  c.n_kv_heads = get<int64_t>(j, "n_kv_heads", get<bool>(j, "multi_query_attention", false) ? 1 : c.n_heads);
  c.vocab_size = get<int64_t>(j, "embedding_size", 0);
  if (c.vocab_size == 0) c.vocab_size = need(j, "vocab_size", file);
  c.activation = get<std::string>(j, "activation_type", "swiglu");
  c.mlp_hidden_size = get<int64_t>(j, "mlp_hidden_size", get<int64_t>(j, "mlp_ratio", 4) * c.d_model);
  c.rope_theta = get<double>(j, "rope_theta", 10000.0);
  c.weight_tying = get<bool>(j, "weight_tying", true);
}

/// The published code's own keys; the scheme is the file's `model`.
void official(const json& j, const std::string& model, const std::string& file, ModelConfig& c) {
  static const std::map<std::string, std::string> names = {{"pre", "pre"},
                                                           {"post", "post"},
                                                           {"hybridnorm", "hybrid"},
                                                           {"hybridnorm_star", "hybrid_star"},
                                                           {"siamese_hybrid_pre", "siamese_hybrid"}};
  const auto it = names.find(model);
  if (it == names.end()) fail("{}: model '{}' is not one this program builds", file, model);
  c.scheme = it->second;
  if (get<bool>(j, "alibi", false) || !get<bool>(j, "rope", true))
    fail("{}: only rotary positions are supported", file);
  if (get<std::string>(j, "block_type", "sequential") != "sequential")
    fail("{}: only sequential blocks are supported", file);
  const std::string norm = get<std::string>(j, "layer_norm_type", "rms");
  c.norm = norm == "rms" ? "rms" : "layer";
  c.norm_eps = get<double>(j, "layer_norm_eps", 1e-5);
  c.norm_affine = get<bool>(j, "layer_norm_with_affine", true);
  c.norm_bias = c.norm == "layer" && get<bool>(j, "bias_for_layer_norm", get<bool>(j, "include_bias", false));
  c.bias = get<bool>(j, "include_bias", false);
  if (get<bool>(j, "attention_layer_norm", false)) c.qk_norm = "projection";
  if (get<bool>(j, "use_query_norm", false) && get<bool>(j, "use_key_norm", false)) c.qk_norm = "head";
}

void ours(const json& j, const std::string& file, ModelConfig& c) {
  c.scheme = get<std::string>(j, "scheme", "");
  c.norm = get<std::string>(j, "norm", "rms");
  c.norm_eps = get<double>(j, "eps", 1e-5);
  c.qk_norm = get<bool>(j, "qk_norm", false) ? "head" : "none";
  c.input_norm = get<bool>(j, "input_norm", true);
  c.depth_scale = get<bool>(j, "depth_scale", true);
  c.streams = get<int64_t>(j, "streams", c.scheme == "mhc" ? 4 : 2);
  c.mix_fraction = get<double>(j, "mix_fraction", 0.25);
  c.span_aggregate = get<std::string>(j, "span_aggregate", "block");
  if (c.scheme == "siamese" && get<std::string>(j, "x_stream", "post") == "hybrid") c.scheme = "siamese_hybrid";
  if (!j.contains("experts")) return;
  MoeConfig& moe = c.moe;
  moe.experts = need(j, "experts", file);
  moe.top_k = need(j, "top_k", file);
  moe.expert_hidden_size = need(j, "expert_hidden_size", file);
  moe.balance_weight = get<double>(j, "balance_weight", moe.balance_weight);
  moe.router_z_weight = get<double>(j, "router_z_weight", moe.router_z_weight);
}

/// The published DeiT's and DiT's keys; they are siamese.
void images(const json& j, const std::string& model, const std::string& file, ModelConfig& c) {
  c.family = model.starts_with("dit") ? "dit" : "deit";
  const bool dit = c.family == "dit";
  static const std::map<std::string, std::string> names = {
      {"post-pre", "siamese"}, {"pre", "pre"}, {"post", "post"}, {"hybrid-pre", "siamese_hybrid"}};
  const std::string last = model.substr(model.rfind(' ') + 1);
  const auto it = names.find(last);
  if (it == names.end()) fail("{}: model '{}' is not one this program builds", file, model);
  c.scheme = it->second;
  c.image_size = need(j, dit ? "input_size" : "img_size", file);
  c.patch_size = need(j, "patch_size", file);
  c.channels = need(j, dit ? "in_channels" : "in_chans", file);
  c.classes = need(j, "num_classes", file);
  c.d_model = need(j, dit ? "hidden_size" : "embed_dim", file);
  c.n_layers = need(j, "depth", file);
  c.n_heads = c.n_kv_heads = need(j, "num_heads", file);
  c.mlp_hidden_size = static_cast<int64_t>(get<double>(j, "mlp_ratio", 4.0) * static_cast<double>(c.d_model));
  c.distilled = get<bool>(j, "distilled", false);
  c.label_dropout = get<double>(j, "class_dropout_prob", 0.1);
  c.learn_sigma = get<bool>(j, "learn_sigma", true);
  c.activation = dit ? "gelu_tanh" : "gelu";
  c.norm = "layer", c.norm_eps = 1e-6, c.norm_bias = c.bias = true;
  c.init.kind = dit ? "xavier" : "normal";
  if (!get<bool>(j, "qkv_bias", true)) fail("{}: a model without qkv_bias is not built here", file);
}

/// The config is a stranger's: what the model divides by or allocates must make sense before it is built. Sizes are
/// held against the file, which has to contain every matrix anyway.
void check(const ModelConfig& c, const SafetensorsFile& file) {
  int64_t largest = 0;
  for (const auto& [name, view] : file.tensors()) {
    int64_t n = 1;
    for (const int64_t size : view.shape) n *= size;  // cannot overflow: the file's size was checked
    largest = std::max(largest, n);
  }
  auto within = [&](const char* key, int64_t value, int64_t high) {
    if (value < 1 || value > high)
      fail("{}: config '{}' is {}, which does not fit the file's tensors", file.name(), key, value);
  };
  within("d_model", c.d_model, largest);
  within("n_heads", c.n_heads, c.d_model);
  within("n_kv_heads", c.n_kv_heads, c.n_heads);
  within("n_layers", c.n_layers, static_cast<int64_t>(file.tensors().size()));
  if (c.moe.experts != 0) {
    within("experts", c.moe.experts, largest / c.d_model);
    within("top_k", c.moe.top_k, c.moe.experts);
    within("expert_hidden_size", c.moe.expert_hidden_size, largest / c.d_model);
  } else {
    within("mlp_hidden_size", c.mlp_hidden_size, largest / c.d_model);
  }
  if (c.family == "lm") {
    within("vocab_size", c.vocab_size, largest / c.d_model);
  } else {
    within("num_classes", c.classes, largest / c.d_model);
    within("img_size", c.image_size, largest);
    within("in_chans", c.channels, largest);
    within("patch_size", c.patch_size, c.image_size);
    if (c.image_size % c.patch_size != 0 || (c.family == "dit" && c.d_model % 4 != 0))
      fail("{}: config: sizes {}, {} and width {} do not go together", file.name(), c.image_size, c.patch_size,
           c.d_model);
    within("tokens", c.image_size / c.patch_size * (c.image_size / c.patch_size), largest);
  }
  if (c.d_model % c.n_heads != 0 || (c.family == "lm" && c.d_model / c.n_heads % 2 != 0) ||
      c.n_heads % c.n_kv_heads != 0)
    fail("{}: config: d_model {}, n_heads {} and n_kv_heads {} do not go together", file.name(), c.d_model, c.n_heads,
         c.n_kv_heads);
  if (c.activation != "swiglu" && c.activation != "gelu" && c.activation != "gelu_tanh")
    fail("{}: activation_type '{}' is not built here", file.name(), c.activation);
  const int64_t hidden = c.moe.experts > 0 ? c.moe.expert_hidden_size : c.mlp_hidden_size;
  if (c.activation == "swiglu" && hidden % 2 != 0)
    fail("{}: config '{}' is {}, but swiglu needs an even one", file.name(),
         c.moe.experts > 0 ? "expert_hidden_size" : "mlp_hidden_size", hidden);
  if (c.norm != "rms" && c.norm != "layer") fail("{}: norm '{}' is not built here", file.name(), c.norm);
  if (c.scheme.starts_with("hc_") || c.scheme == "mhc") within("streams", c.streams, 64);
}

}  // namespace

ModelConfig golden_config(const SafetensorsFile& file) {
  const auto& meta = file.metadata();
  if (!meta.contains("model") || !meta.contains("config"))
    fail("{}: not a golden file: its metadata has no 'model' and 'config'", file.name());
  try {
    const json j = json::parse(meta.at("config"));
    if (!j.is_object()) fail("{}: 'config' is not a JSON object", file.name());
    ModelConfig c;
    const std::string& model = meta.at("model");
    if (model.starts_with("deit") || model.starts_with("dit")) {
      images(j, model, file.name(), c);
    } else {
      common(j, file.name(), c);
      model == "lm" ? ours(j, file.name(), c) : official(j, model, file.name(), c);
    }
    check(c, file);
    return c;
  } catch (const json::exception& e) {
    fail("{}: 'config' cannot be read: {}", file.name(), e.what());
  }
}

}  // namespace siamese
