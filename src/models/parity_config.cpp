#include "models/parity_config.h"

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
  c.n_kv_heads = get<int64_t>(j, "n_kv_heads", c.n_heads);
  c.vocab_size = get<int64_t>(j, "embedding_size", need(j, "vocab_size", file));
  c.activation = get<std::string>(j, "activation_type", "swiglu");
  c.mlp_hidden_size = get<int64_t>(j, "mlp_hidden_size", get<int64_t>(j, "mlp_ratio", 4) * c.d_model);
  c.rope_theta = get<double>(j, "rope_theta", 10000.0);
  c.weight_tying = get<bool>(j, "weight_tying", true);
}

/// The published code's own keys; the scheme is the file's `model`.
void official(const json& j, const std::string& model, const std::string& file, ModelConfig& c) {
  static const std::map<std::string, std::string> names = {{"pre", "pre"}, {"post", "post"}, {"hybridnorm", "hybrid"},
      {"hybridnorm_star", "hybrid_star"}, {"siamese_hybrid_pre", "siamese_hybrid"}};
  const auto it = names.find(model);
  if (it == names.end()) fail("{}: model '{}' is not one this program builds", file, model);
  c.scheme = it->second;
  if (get<bool>(j, "alibi", false) || !get<bool>(j, "rope", true)) fail("{}: only rotary positions are supported", file);
  if (get<std::string>(j, "block_type", "sequential") != "sequential") fail("{}: only sequential blocks are supported", file);
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
  if (j.contains("experts")) fail("{}: mixtures of experts are not built yet", file);
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
    common(j, file.name(), c);
    if (meta.at("model") == "lm") {
      ours(j, file.name(), c);
    } else {
      official(j, meta.at("model"), file.name(), c);
    }
    return c;
  } catch (const json::exception& e) {
    fail("{}: 'config' cannot be read: {}", file.name(), e.what());
  }
}

}  // namespace siamese
