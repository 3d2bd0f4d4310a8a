// Stand-ins become values, and combinations that cannot work are refused by the names of their keys.
#include <algorithm>
#include <initializer_list>
#include <utility>

#include "recipe/clash.h"
#include "recipe/schema.h"
#include "util/error.h"
#include "util/text.h"

namespace siamese {
namespace {

constexpr size_t kMaxName = 200;

std::string stem(const std::string& file) {
  std::string name = file.substr(file.rfind('/') + 1);
  for (const std::string_view suffix : {".yaml", ".yml"}) {
    if (name.size() > suffix.size() && name.ends_with(suffix)) name.resize(name.size() - suffix.size());
  }
  return name;
}

/// What image models have where a recipe says nothing, unlike language models.
void fill_in_family(const Draft& draft, Recipe& r) {
  ModelConfig& m = r.model;
  if (m.family == "lm") return;
  auto unless_set = [&](std::string_view path, auto& slot, auto value) {
    if (layer_of(draft, path) < 0) slot = value;
  };
  if (r.data.source == "auto") r.data.source = r.data.images.empty() ? "shapes" : "folder";
  unless_set("model.activation", m.activation, m.family == "dit" ? "gelu_tanh" : "gelu");
  unless_set("model.norm", m.norm, "layer");
  unless_set("model.norm_eps", m.norm_eps, 1e-6);
  if (m.norm == "layer" && m.norm_affine) unless_set("model.norm_bias", m.norm_bias, true);
  unless_set("model.bias", m.bias, true);
  unless_set("model.scheme", m.scheme, "siamese");
  unless_set("model.init.kind", m.init.kind, m.family == "dit" ? "xavier" : "normal");
  if (m.family != "dit") return;
  unless_set("augment.normalize", r.augment.normalize, "half");
  unless_set("train.weight_decay", r.train.weight_decay, 0.0);
}

void fill_in(const Draft& draft, Recipe& r) {
  if (r.name.empty()) r.name = stem(draft.origin);
  ModelConfig& m = r.model;
  if (m.n_kv_heads == 0) m.n_kv_heads = m.n_heads;
  if (m.mlp_hidden_size == 0) m.mlp_hidden_size = (m.activation == "swiglu" ? 8 : 4) * m.d_model;
  if (m.stream_dtype == "auto") m.stream_dtype = r.train.precision;
  if (m.streams == 0 && (m.scheme == "hc_static" || m.scheme == "hc_dynamic")) m.streams = 2;
  if (m.streams == 0 && m.scheme == "mhc") m.streams = 4;
  if (r.train.micro_batch_size == 0) r.train.micro_batch_size = r.train.batch_size;
  DataConfig& d = r.data;
  if (d.source == "auto") d.source = !d.text.empty() ? "text" : !d.tokens.empty() ? "tokens" : "sentences";
}

/// An option that its owner does not have is refused where it was set together with the owner's value or after it. Set
/// in an earlier layer it is forgotten: `--set model.scheme=pre` works on a recipe that tunes siamese. Writing a
/// default never hurts, so that a printed recipe, which names every key, reads back.
void settle_options(Draft& draft) {
  for (const Field& field : fields()) {
    if (field.owner.empty()) continue;
    const std::string owner = std::get<std::string>(get(*find_field(field.owner), draft.recipe));
    if (std::find(field.owners.begin(), field.owners.end(), owner) != field.owners.end()) continue;
    if (get(field, draft.recipe) == default_of(field)) continue;
    if (layer_of(draft, field.path) >= layer_of(draft, field.owner)) {
      clash(draft, {field.path}, "{} is an option of {}; {} is {}", field.path, join(field.owners, ", "), field.owner,
            owner);
    }
    set(field, draft.recipe, default_of(field));
  }
}

void check_model(const Draft& draft, const ModelConfig& m) {
  if (m.d_model % m.n_heads != 0) {
    clash(draft, {"model.d_model", "model.n_heads"}, "model.d_model ({}) is not a multiple of model.n_heads ({})",
          m.d_model, m.n_heads);
  }
  if (m.family == "lm" && m.d_model / m.n_heads % 2 != 0) {
    clash(draft, {"model.d_model", "model.n_heads"},
          "model.d_model / model.n_heads is the head size, {}; rotary positions need an even one",
          m.d_model / m.n_heads);
  }
  if (m.n_heads % m.n_kv_heads != 0) {
    clash(draft, {"model.n_kv_heads", "model.n_heads"}, "model.n_heads ({}) is not a multiple of model.n_kv_heads ({})",
          m.n_heads, m.n_kv_heads);
  }
  if (m.activation == "swiglu" && m.mlp_hidden_size % 2 != 0) {
    clash(draft, {"model.mlp_hidden_size", "model.activation"},
          "model.mlp_hidden_size ({}) must be even: model.activation swiglu splits it in two halves",
          m.mlp_hidden_size);
  }
  if (m.norm_bias && !m.norm_affine) {
    clash(draft, {"model.norm_bias", "model.norm_affine"}, "model.norm_bias needs model.norm_affine: true");
  }
  // `head` is allowed: the norms of these schemes include it, and the recipe keeps it for `--set model.scheme=pre`.
  const bool norms_heads = m.scheme == "hybrid" || m.scheme == "hybrid_star" || m.scheme == "siamese_hybrid";
  if (norms_heads && m.qk_norm == "projection") {
    clash(draft, {"model.qk_norm", "model.scheme"},
          "model.qk_norm projection does not go with model.scheme {}, which norms q, k and v per head", m.scheme);
  }
}

void check_data(const Draft& draft, const DataConfig& d, int64_t vocab_size) {
  if (!d.text.empty() && !d.tokens.empty()) {
    clash(draft, {"data.text", "data.tokens"}, "data.text and data.tokens are both set; one of them has to be \"\"");
  }
  if (!d.text.empty() && d.source != "text") {
    clash(draft, {"data.text", "data.source"}, "data.text is set, but data.source is {}, not text", d.source);
  }
  if (!d.tokens.empty() && d.source != "tokens") {
    clash(draft, {"data.tokens", "data.source"}, "data.tokens is set, but data.source is {}, not tokens", d.source);
  }
  if (!d.validation_tokens.empty() && d.source != "tokens") {
    clash(draft, {"data.validation_tokens", "data.source"},
          "data.validation_tokens is set, but data.source is {}, not tokens", d.source);
  }
  if (d.source == "text" && d.text.empty()) clash(draft, {"data.source"}, "data.source text needs a file in data.text");
  if (d.source == "tokens" && d.tokens.empty()) {
    clash(draft, {"data.source"}, "data.source tokens needs files in data.tokens");
  }
  if (d.source != "tokens") return;
  if (d.document_masking && d.eos_id < 0) {
    clash(draft, {"data.document_masking", "data.eos_id"},
          "data.document_masking needs data.eos_id, the token that ends a document");
  }
  if (d.token_dtype == "uint16" && d.eos_id > 65535) {
    clash(draft, {"data.eos_id", "data.token_dtype"}, "data.eos_id ({}) does not fit data.token_dtype uint16",
          d.eos_id);
  }
  if (vocab_size > 0 && d.eos_id >= vocab_size) {
    clash(draft, {"data.eos_id", "model.vocab_size"}, "data.eos_id ({}) is not below model.vocab_size ({})", d.eos_id,
          vocab_size);
  }
}

void check_train(const Draft& draft, const TrainConfig& t) {
  if (t.batch_size % t.micro_batch_size != 0) {
    clash(draft, {"train.batch_size", "train.micro_batch_size"},
          "train.batch_size ({}) is not a multiple of train.micro_batch_size ({})", t.batch_size, t.micro_batch_size);
  }
  const double decay = t.decay_fraction * static_cast<double>(t.steps);
  if (t.schedule == "wsd" && static_cast<double>(t.warmup_steps) + decay > static_cast<double>(t.steps)) {
    clash(draft, {"train.decay_fraction", "train.warmup_steps", "train.steps"},
          "train.warmup_steps ({}) and train.decay_fraction ({}) take more than train.steps ({})", t.warmup_steps,
          t.decay_fraction, t.steps);
  }
}

/// `auto` copes with what stands in its way; `on` is a demand.
void check_graph(const Draft& draft, const Recipe& r) {
  const GraphObstacle obstacle = graph_obstacle(r);
  if (r.train.graph == "on" && !obstacle.key.empty()) {
    clash(draft, {"train.graph", obstacle.key}, "train.graph is on, but {} {}: one of the two has to go", obstacle.key,
          obstacle.why);
  }
}

}  // namespace

GraphObstacle graph_obstacle(const Recipe& r) {
  const ModelConfig& m = r.model;
  constexpr std::string_view kDraws = "draws other random numbers at every step";
  if (m.embedding_dropout > 0) return {"model.embedding_dropout", kDraws};
  if (m.residual_dropout > 0) return {"model.residual_dropout", kDraws};
  if (m.attention_dropout > 0) return {"model.attention_dropout", kDraws};
  if (m.drop_path > 0 && m.family != "deit") return {"model.drop_path", kDraws};  // deit draws it before the step
  if (m.moe.jitter > 0) return {"model.moe.jitter", kDraws};
  if (m.moe.experts > 0 && (m.activation != "swiglu" || r.train.precision != "bfloat16"))
    return {"model.moe.experts", kExpertsWithoutKernels};
  if (r.data.document_masking) return {"data.document_masking", "cuts every batch into other documents"};
  if (!m.fused) return {"model.fused", "is false, and plain operators may wait for the GPU"};
  return {};
}

void resolve(Draft& draft) {
  fill_in_family(draft, draft.recipe);  // first: options belong to what a family has
  settle_options(draft);
  fill_in(draft, draft.recipe);
  const Recipe& r = draft.recipe;
  // A run's folder may be named after it.
  if (r.name.size() > kMaxName || r.name.find('/') != std::string::npos || r.name == "." || r.name == "..") {
    clash(draft, {"name"}, "name ('{}') must be fit for a folder: at most {} bytes and no '/'", printable(r.name),
          kMaxName);
  }
  check_model(draft, r.model);
  settle_mixture(draft);
  check_images(draft, r);
  if (r.model.family == "lm") check_data(draft, r.data, r.model.vocab_size);
  check_train(draft, r.train);
  check_graph(draft, r);
}

}  // namespace siamese
