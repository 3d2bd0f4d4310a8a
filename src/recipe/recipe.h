// What a recipe says: one plain value, complete after `load_recipe`, that describes a run from data to checkpoint.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace siamese {

struct InitConfig {
  std::string kind = "mitchell";  // mitchell | normal | full_megatron | xavier
  double std = 0.02;              // normal and full_megatron
  double cutoff = 3.0;            // truncation in standard deviations
  bool operator==(const InitConfig&) const = default;
};

/// A mixture of experts in place of the feed-forward; the defaults route as OLMoE does.
struct MoeConfig {
  int64_t experts = 0;             // 0: a dense feed-forward
  int64_t top_k = 2;               // experts a token goes to
  int64_t expert_hidden_size = 0;  // swiglu: both halves together; 0: mlp_hidden_size / top_k, a multiple of 16
  int64_t shared_experts = 0;      // of the same size, which every token goes to besides
  int64_t dense_blocks = 0;        // the first blocks keep the dense feed-forward
  std::string score = "softmax";   // softmax | sigmoid
  bool renormalize = false;        // the weights of a token's experts add up to 1
  std::string balance = "loss";    // loss | bias | none
  double balance_weight = 0.01;    // loss
  double bias_rate = 1e-3;         // bias: what a step moves the bias of an expert by
  double router_z_weight = 1e-3;   // weight of the routers' mean logsumexp²
  double capacity_factor = 0.0;    // training: rows an expert takes, times the mean; 0: all
  double jitter = 0.0;             // training: the router reads its input times 1 ± jitter
  bool operator==(const MoeConfig&) const = default;
};

struct ModelConfig {
  std::string family = "lm";  // lm | deit | dit
  std::string scheme = "siamese_hybrid";
  int64_t d_model = 256;
  int64_t n_layers = 6;
  int64_t n_heads = 4;
  int64_t n_kv_heads = 0;             // 0: as n_heads
  int64_t mlp_hidden_size = 0;        // swiglu: both halves together; 0: 8·d_model (swiglu) or 4·d_model (gelu)
  int64_t vocab_size = 0;             // 0: the data's
  std::string activation = "swiglu";  // swiglu | gelu | gelu_tanh
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
  // Images: deit and dit.
  int64_t image_size = 224;  // pixels a side; dit: of what is diffused, latents included
  int64_t patch_size = 16;   // pixels a side of a token
  int64_t channels = 3;
  int64_t classes = 0;         // 0: the data's
  bool distilled = false;      // deit: a second token and head that learn from a teacher
  bool learn_sigma = true;     // dit: the variance as well, as a share between its bounds
  double label_dropout = 0.1;  // dit: share of the samples trained without their label
  InitConfig init;
  MoeConfig moe;
  bool operator==(const ModelConfig&) const = default;
};

struct DataConfig {
  std::string source = "auto";      // auto | arithmetic | sentences | text | tokens | folder | cifar10 | idx | shapes |
                                    // latents
  std::string text;                 // a UTF-8 file, split 95/5
  std::vector<std::string> tokens;  // raw little-endian files
  std::vector<std::string> validation_tokens;  // empty: the last 5 % of each of `tokens`
  std::string token_dtype = "uint16";          // uint16 | uint32
  int64_t eos_id = -1;                         // tokens: end of document; -1: none
  bool document_masking = false;               // attention stays inside a document
  bool shuffle = true;
  std::string images;             // folder of class folders, of CIFAR-10's or of IDX files; latents: a safetensors file
  std::string validation_images;  // the same for validation; empty: the data's own split, else every 20th
  int64_t shapes = 20000;         // shapes: training images; a tenth as many validate
  std::string corrupt = "refuse";  // refuse | skip: an image that cannot be read
  std::string cache = "auto";      // auto | on | off: decoded images stay in memory
  int64_t workers = 0;             // threads that read and augment; 0: one a core
  bool operator==(const DataConfig&) const = default;
};

/// What becomes of an image on its way into a batch; names and defaults as in DeiT's recipe. Everything is off that
/// `deit` recipes do not turn on.
struct AugmentConfig {
  std::string crop = "none";              // none | resized (random part, resized) | padded (random shift) | center
  double crop_scale = 0.08;               // resized: least share of the area
  int64_t padding = 4;                    // padded: pixels at each side
  double crop_ratio = 0.875;              // centre crop of evaluation: share of the shorter side
  std::string interpolation = "bicubic";  // bicubic | bilinear | random
  double flip = 0.0;                      // probability of a mirror image
  double rand_augment = 0.0;              // magnitude, 0: off; DeiT 9
  double rand_augment_std = 0.5;          // of the magnitude
  int64_t rand_augment_ops = 2;           // operations an image
  double color_jitter = 0.0;              // brightness, contrast, saturation; without rand_augment, as timm has it
  double erasing = 0.0;                   // probability of a random rectangle of noise
  double mixup = 0.0;                     // parameter of the beta distribution; 0: off
  double cutmix = 0.0;
  double mix_switch = 0.5;  // share of cutmix where both are on
  double mix_probability = 1.0;
  double smoothing = 0.0;              // of labels
  int64_t repeats = 1;                 // augmentations of a sample in a batch
  std::string normalize = "imagenet";  // imagenet (mean and deviation) | half (to -1 … 1)
  bool operator==(const AugmentConfig&) const = default;
};

struct DistillConfig {
  std::string kind = "none";  // none | hard | soft
  std::string teacher;        // a checkpoint or run of ours
  double alpha = 0.5;         // weight of the teacher's loss
  double temperature = 1.0;   // soft
  bool operator==(const DistillConfig&) const = default;
};

struct DiffusionConfig {
  int64_t steps = 1000;
  std::string schedule = "linear";  // linear | cosine
  std::string predict = "epsilon";  // epsilon | v
  double latent_scale = 0.18215;    // latents are multiplied with it
  int64_t sample_every = 0;         // steps between grids of samples in the run folder; 0: only at the end
  int64_t sample_steps = 50;        // of those grids
  double sample_cfg = 3.0;
  bool operator==(const DiffusionConfig&) const = default;
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
  double layer_decay = 1.0;           // deit: factor on the learning rate from each block to the one before
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
  AugmentConfig augment;
  DistillConfig distill;
  DiffusionConfig diffusion;
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
/// Of model.moe.experts: they have kernels in bfloat16 with SwiGLU, on some GPUs (train/execution.h).
inline constexpr std::string_view kExpertsWithoutKernels =
    "takes plain operators here, which ask the GPU how many tokens each expert has";
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
