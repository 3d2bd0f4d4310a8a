// What a recipe says: one plain value, complete after `load_recipe`, that describes a run from data to checkpoint.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace siamese {

struct InitConfig {
  std::string kind = "mitchell";  // mitchell | normal | full_megatron
  double std = 0.02;              // normal and full_megatron
  double cutoff = 3.0;            // truncation in standard deviations
  bool operator==(const InitConfig&) const = default;
};

struct ModelConfig {
  std::string family = "lm";
  std::string scheme = "siamese_hybrid";
  int64_t d_model = 256;
  int64_t n_layers = 6;
  int64_t n_heads = 4;
  int64_t n_kv_heads = 0;             // 0: as n_heads
  int64_t mlp_hidden_size = 0;        // swiglu: both halves together; 0: 8·d_model (swiglu) or 4·d_model (gelu)
  int64_t vocab_size = 0;             // 0: the data's
  std::string activation = "swiglu";  // swiglu | gelu
  std::string norm = "rms";           // rms | layer
  double norm_eps = 1e-5;
  bool norm_affine = true;
  bool norm_bias = false;        // layer only
  std::string qk_norm = "none";  // none | head | projection
  double rope_theta = 10000.0;
  bool bias = false;
  bool weight_tying = true;
  double embedding_dropout = 0.0;
  double residual_dropout = 0.0;
  double attention_dropout = 0.0;
  double drop_path = 0.0;             // of the last sub-layer; rises linearly with depth
  std::string stream_dtype = "auto";  // auto (as train.precision) | float32 | bfloat16
  bool fused = true;                  // false: the plain path of every scheme
  // Options of single schemes.
  bool input_norm = true;                // siamese, siamese_hybrid
  bool depth_scale = true;               // siamese, siamese_hybrid
  int64_t streams = 0;                   // hc_*, mhc; 0: the scheme's own default
  double mix_fraction = 0.25;            // mix_ln
  std::string span_aggregate = "block";  // span: block | ffn
  InitConfig init;
  bool operator==(const ModelConfig&) const = default;
};

struct DataConfig {
  std::string source = "auto";                 // auto | arithmetic | sentences | text | tokens
  std::string text;                            // a UTF-8 file, split 95/5
  std::vector<std::string> tokens;             // raw little-endian files
  std::vector<std::string> validation_tokens;  // empty: the last 5 % of each of `tokens`
  std::string token_dtype = "uint16";          // uint16 | uint32
  int64_t eos_id = -1;                         // tokens: end of document; -1: none
  bool document_masking = false;               // attention stays inside a document
  bool shuffle = true;
  bool operator==(const DataConfig&) const = default;
};

struct TrainConfig {
  int64_t steps = 1000;
  int64_t batch_size = 8;        // sequences a step
  int64_t micro_batch_size = 0;  // sequences a forward pass; 0: batch_size
  int64_t sequence_length = 256;
  double lr = 1e-3;
  std::string schedule = "cosine";  // cosine | linear | constant | wsd
  int64_t warmup_steps = 100;
  double warmup_from = 0.1;     // share of the peak at step 0
  double final_lr = 0.1;        // share of the peak at the end
  double decay_fraction = 0.2;  // wsd: last share of the steps
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;
  bool decay_embeddings = false;
  bool decay_norms = false;
  double clip = 1.0;  // global norm; 0: off
  double z_loss = 0.0;
  double ema = 0.0;                   // decay of the averaged weights; 0: off
  std::string precision = "float32";  // float32 | bfloat16
  std::string recompute = "auto";     // auto | none | norms | feed_forward | block
  std::string graph = "auto";         // auto | on | off: the step as a CUDA graph
  bool deterministic = false;         // on a GPU: algorithms that give the same bits every time
  int64_t seed = 1;
  bool operator==(const TrainConfig&) const = default;
};

struct EvalConfig {
  int64_t every = 100;     // steps; 0: only at the end
  int64_t batches = 16;    // validation batches an evaluation; 0: all
  int64_t problems = 200;  // arithmetic: held-out problems for exact match
  bool operator==(const EvalConfig&) const = default;
};

struct CheckpointConfig {
  int64_t every = 200;  // steps; 0: only at the end
  int64_t keep = 2;     // newest; the best by validation loss is kept besides
  bool operator==(const CheckpointConfig&) const = default;
};

struct Recipe {
  std::string name;
  ModelConfig model;
  DataConfig data;
  TrainConfig train;
  EvalConfig eval;
  CheckpointConfig checkpoint;
  bool operator==(const Recipe&) const = default;
};

/// Reads FILE (or the bundled recipe of that name), its `extends:` chain and the `key=value` overrides; checks and
/// resolves it. Throws Error naming file, line, key and, for an unknown key, the nearest valid one.
Recipe load_recipe(const std::string& file, const std::vector<std::string>& overrides = {});

/// The same for text that is already in memory (`extends:` is refused); `origin` is the name used in messages.
Recipe parse_recipe(std::string_view yaml, const std::string& origin, const std::vector<std::string>& overrides = {});

/// The resolved recipe as YAML that `load_recipe` reads back to the same value.
std::string to_yaml(const Recipe& recipe);

/// Why no training step of this recipe can be captured as a CUDA graph, whose kernels get the same arguments every
/// time.
struct GraphObstacle {
  std::string_view key, why;  // empty: it can
};
GraphObstacle graph_obstacle(const Recipe& recipe);

/// One row a key: `train.lr`, its type, default, allowed values and one line of help (`siamese recipe --keys`).
std::string recipe_keys();

/// Names of the residual schemes a recipe may ask for.
const std::vector<std::string>& scheme_names();

/// Where the bundled recipes lie; the environment variable SIAMESE_RECIPES takes precedence.
void set_recipe_folder(std::string folder);

/// Names of the bundled recipes, sorted, without `.yaml`.
std::vector<std::string> bundled_recipes();

}  // namespace siamese
