// What the tests of the residual schemes share: every scheme with its options, models with random parameters, and a
// scheme run through its interface alone.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gradcheck.h"
#include "models/language_model.h"
#include "residual/scheme.h"
#include "tiny.h"

namespace siamese {

struct SchemeCase {
  std::string name;
  ModelConfig config;
};

inline ModelConfig scheme_config(const std::string& scheme) {
  ModelConfig c = tiny_config(scheme);
  c.n_kv_heads = 1;
  c.norm_eps = 1e-3;  // large enough for a lost epsilon to show
  return c;
}

/// Every scheme, and every option of a scheme once.
inline std::vector<SchemeCase> scheme_cases() {
  std::vector<SchemeCase> cases;
  for (const SchemeInfo& info : scheme_table()) cases.push_back({info.name, scheme_config(info.name)});
  auto variant = [&](const std::string& scheme, const std::string& suffix) -> ModelConfig& {
    cases.push_back({scheme + "_" + suffix, scheme_config(scheme)});
    return cases.back().config;
  };
  for (const char* scheme : {"siamese", "siamese_hybrid"}) {
    variant(scheme, "without_input_norm").input_norm = false;
    variant(scheme, "without_depth_scale").depth_scale = false;
  }
  variant("span", "ffn").span_aggregate = "ffn";
  variant("mix_ln", "all_post").mix_fraction = 1.0;
  variant("hc_static", "3_streams").streams = 3;
  variant("hc_dynamic", "1_stream").streams = 1;
  return cases;
}

inline std::string scheme_case_name(const testing::TestParamInfo<SchemeCase>& test) { return test.param.name; }

/// Every parameter away from its start, and no two alike: gains about 1, maps and c1 about their start, matrices wide
/// enough for all sub-layers to matter. A parameter's values depend on its name.
inline void randomise(Params& params) {
  const at::NoGradGuard no_grad;
  params.initialise(1);
  for (const Parameter& p : params.all()) {
    const int64_t number = static_cast<int64_t>(std::hash<std::string>{}(p.name) % 1000003);
    const at::Tensor noise = random_normal(p.value.sizes(), number).to(p.value.device());
    const bool centred = p.name.ends_with("b_res");  // its start makes Sinkhorn's result all but the identity
    at::Tensor value = p.value.to(at::kDouble);
    if (p.init.kind == InitSpec::normal)
      value = noise * (0.8 / std::sqrt(static_cast<double>(p.value.size(-1))));
    else
      value = (centred ? 0.0 : 1.0) * value + 0.4 * noise;
    at::Tensor(p.value).copy_(value);
  }
}

inline std::unique_ptr<LanguageModel> random_model(const ModelConfig& config, at::ScalarType dtype = at::kDouble) {
  ModelOptions options;
  options.dtype = options.stream_dtype = dtype;
  auto model = std::make_unique<LanguageModel>(config, options);
  randomise(model->params());
  return model;
}

inline NamedLeaves leaves_of(const Params& params) {
  NamedLeaves leaves;
  for (const Parameter& p : params.all()) leaves.emplace_back(p.name, p.value);
  return leaves;
}

/// A scheme without a model: sub-layer k is r = tanh(z W_k) on streams [3, 2, d].
struct SchemeRun {
  explicit SchemeRun(const ModelConfig& c, bool input_affine = true, bool final_norm = true)
      : config(c), params(at::kDouble, at::kCPU) {
    scheme = make_scheme({config, params, input_affine, final_norm, at::kDouble});
    randomise(params);
    leaves = leaves_of(params);
    embedding = leaf("embedding", {kBatch, 2, c.d_model}, 1.0);
    for (int k = 0; k < sites(); ++k) {
      w.push_back(leaf(fmt::format("w{}", k), {c.d_model, c.d_model}, 0.4));
      modulations.emplace_back();
      gates.emplace_back();
      row_scales.emplace_back();
    }
  }

  static constexpr int64_t kBatch = 3;
  int sites() const { return 2 * static_cast<int>(config.n_layers); }

  at::Tensor leaf(const std::string& name, at::IntArrayRef shape, double std, double mean = 0.0) {
    const at::Tensor t =
        (random_normal(shape, 7000 + static_cast<int64_t>(leaves.size())) * std + mean).set_requires_grad(true);
    leaves.emplace_back(name, t);
    return t;
  }

  /// adaLN on every sub-layer, and DropPath factors.
  void modulate_all() {
    for (int k = 0; k < sites(); ++k) {
      const size_t i = static_cast<size_t>(k);
      modulations[i] = {leaf(fmt::format("shift{}", k), {kBatch, config.d_model}, 0.5),
                        leaf(fmt::format("scale{}", k), {kBatch, config.d_model}, 0.3)};
      gates[i] = leaf(fmt::format("gate{}", k), {kBatch, config.d_model}, 0.5, 1.0);
      row_scales[i] = leaf(fmt::format("row_scale{}", k), {kBatch}, 0.5, 1.0);
    }
  }

  /// The streams after sub-layers 0 … last-1, the last update pending.
  Streams until(int last) const {
    Streams s = scheme->start(embedding);
    for (int k = 0; k < last; ++k) {
      const size_t i = static_cast<size_t>(k);
      const Site site{k};
      const Read read = scheme->read(s, site, modulations[i]);
      s = scheme->write(read.streams, {at::tanh(at::matmul(read.input, w[i])), gates[i], row_scales[i]}, site);
    }
    return s;
  }
  at::Tensor output() const { return scheme->finish(until(sites())); }

  ModelConfig config;
  Params params;
  std::unique_ptr<Scheme> scheme;
  at::Tensor embedding;                          // [3, 2, d]
  std::vector<at::Tensor> w, gates, row_scales;  // of every sub-layer; undefined gates: absent
  std::vector<Modulation> modulations;
  NamedLeaves leaves;  // all of the above and the scheme's parameters
};

}  // namespace siamese
