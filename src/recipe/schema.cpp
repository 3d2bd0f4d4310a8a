#include "recipe/schema.h"

namespace siamese {
namespace {

// The path is the member's own name, so that a key and the value behind it cannot drift apart.
#define FIELD(member) .path = #member, .slot = [](Recipe& r) -> FieldSlot { return &r.member; }

Range at_least(double low) { return {.low = low}; }
Range above(double low) { return {.low = low, .above_low = true}; }
Range between(double low, double high) { return {.low = low, .high = high}; }
Range probability() { return {.low = 0, .high = 1, .below_high = true}; }  // 1 would divide by 0

// Upper bounds are far beyond use; they keep products such as steps · batch · sequence inside 63 bits.
std::vector<Field> make_fields() {
  return {
      {FIELD(name), .help = "name of the run", .unset = "the file's name"},

      {FIELD(model.family), .help = "kind of model", .words = {"lm"}},
      {FIELD(model.scheme), .help = "residual scheme", .words = scheme_names(),
       .also = "residual residual_scheme norm_scheme block_type"},
      {FIELD(model.d_model), .help = "width of the residual stream", .range = between(1, 65536),
       .also = "hidden_size hidden_dim n_embd embed_dim dim width d"},
      {FIELD(model.n_layers), .help = "blocks", .range = between(1, 1000),
       .also = "num_layers num_hidden_layers n_layer depth blocks n_blocks layers"},
      {FIELD(model.n_heads), .help = "attention heads", .range = between(1, 1024),
       .also = "num_heads num_attention_heads n_head heads"},
      {FIELD(model.n_kv_heads), .help = "key and value heads", .range = between(0, 1024), .unset = "as n_heads",
       .also = "num_kv_heads num_key_value_heads kv_heads"},
      {FIELD(model.mlp_hidden_size), .help = "feed-forward width, with swiglu both halves together",
       .range = between(0, 1048576), .unset = "8 d_model with swiglu, 4 d_model with gelu",
       .also = "intermediate_size ffn_hidden_size d_ff mlp_ratio"},
      {FIELD(model.vocab_size), .help = "rows of the embedding", .range = between(0, 16777216), .unset = "the data's",
       .also = "vocab vocabulary embedding_size"},
      {FIELD(model.activation), .help = "feed-forward activation", .words = {"swiglu", "gelu"}, .also = "act"},
      {FIELD(model.norm), .help = "kind of norm", .words = {"rms", "layer"},
       .also = "norm_type layer_norm_type normalization"},
      {FIELD(model.norm_eps), .help = "added to the mean square or variance", .range = above(0),
       .also = "layer_norm_eps rms_norm_eps"},
      {FIELD(model.norm_affine), .help = "norms have a gain", .also = "layer_norm_with_affine elementwise_affine"},
      {FIELD(model.norm_bias), .help = "norms have a bias", .also = "bias_for_layer_norm", .owner = "model.norm",
       .owners = {"layer"}},
      {FIELD(model.qk_norm), .help = "norm of queries and keys: per head or over the whole projection",
       .words = {"none", "head", "projection"}, .also = "attention_layer_norm"},
      {FIELD(model.rope_theta), .help = "base of the rotary angles", .range = at_least(1), .also = "theta rope_base"},
      {FIELD(model.bias), .help = "linear layers have a bias", .also = "include_bias use_bias"},
      {FIELD(model.weight_tying), .help = "the head is the embedding",
       .also = "tie_weights tie_word_embeddings tie_embeddings tied"},
      {FIELD(model.embedding_dropout), .help = "on the embedding", .range = probability(), .also = "embd_pdrop"},
      {FIELD(model.residual_dropout), .help = "on a sub-layer's output", .range = probability(), .also = "dropout"},
      {FIELD(model.attention_dropout), .help = "on attention weights", .range = probability(), .also = "attn_dropout"},
      {FIELD(model.drop_path), .help = "stochastic depth of the last sub-layer, rising linearly from 0",
       .range = probability(), .also = "stochastic_depth drop_path_rate"},
      {FIELD(model.stream_dtype), .help = "type the residual streams are kept in",
       .words = {"auto", "float32", "bfloat16"}, .unset = "as train.precision"},
      {FIELD(model.fused), .help = "fused residual kernels; false: the plain path"},
      {FIELD(model.input_norm), .help = "norm on what a sub-layer reads", .owner = "model.scheme",
       .owners = {"siamese", "siamese_hybrid"}},
      {FIELD(model.depth_scale), .help = "updates of x divided by sqrt(2(l+1))", .owner = "model.scheme",
       .owners = {"siamese", "siamese_hybrid"}},
      {FIELD(model.streams), .help = "residual streams", .range = between(0, 64),
       .unset = "2 in hc_static and hc_dynamic, 4 in mhc", .also = "n_streams num_streams expansion_rate",
       .owner = "model.scheme", .owners = {"hc_static", "hc_dynamic", "mhc"}},
      {FIELD(model.mix_fraction), .help = "share of the blocks that are Post-Norm", .range = between(0, 1),
       .owner = "model.scheme", .owners = {"mix_ln"}},
      {FIELD(model.span_aggregate), .help = "what the end of a block adds up", .words = {"block", "ffn"},
       .also = "aggregate", .owner = "model.scheme", .owners = {"span"}},
      {FIELD(model.init.kind), .help = "initial weights", .words = {"mitchell", "normal", "full_megatron"},
       .also = "init_fn"},
      {FIELD(model.init.std), .help = "standard deviation", .range = above(0), .also = "init_std initializer_range",
       .owner = "model.init.kind", .owners = {"normal", "full_megatron"}},
      {FIELD(model.init.cutoff), .help = "truncation in standard deviations", .range = at_least(0.5),
       .also = "init_cutoff_factor"},

      {FIELD(data.source), .help = "where samples come from",
       .words = {"auto", "arithmetic", "sentences", "text", "tokens"}, .unset = "text or tokens if set, else sentences",
       .also = "dataset"},
      {FIELD(data.text), .help = "a UTF-8 file, read as bytes, split 95/5", .also = "text_file file"},
      {FIELD(data.tokens), .help = "raw little-endian token files", .also = "token_files paths"},
      {FIELD(data.validation_tokens), .help = "token files for validation", .unset = "the last 5 % of data.tokens",
       .also = "val_tokens valid_tokens"},
      {FIELD(data.token_dtype), .help = "type in the token files", .words = {"uint16", "uint32"}, .also = "dtype"},
      {FIELD(data.eos_id), .help = "token that ends a document in data.tokens", .range = between(-1, 4294967295.0),
       .unset = "none", .also = "eos_token_id eos eod_id"},
      {FIELD(data.document_masking), .help = "attention stays inside a document", .also = "mask_documents"},
      {FIELD(data.shuffle), .help = "samples in random order"},

      {FIELD(train.steps), .help = "optimizer steps", .range = between(1, 100000000),
       .also = "max_steps num_steps total_steps iterations max_iters max_duration"},
      {FIELD(train.batch_size), .help = "sequences a step", .range = between(1, 65536),
       .also = "global_batch_size global_train_batch_size batch"},
      {FIELD(train.micro_batch_size), .help = "sequences a forward pass", .range = between(0, 65536),
       .unset = "as batch_size", .also = "microbatch_size device_batch_size device_train_microbatch_size micro_batch"},
      {FIELD(train.sequence_length), .help = "tokens a sequence", .range = between(1, 1048576),
       .also = "seq_len seq_length max_sequence_length block_size context_length"},
      {FIELD(train.lr), .help = "peak learning rate", .range = above(0), .also = "learning_rate max_lr peak_lr"},
      {FIELD(train.schedule), .help = "course of the learning rate after warm-up",
       .words = {"cosine", "linear", "constant", "wsd"}, .also = "scheduler lr_scheduler lr_schedule"},
      {FIELD(train.warmup_steps), .help = "linear warm-up", .range = between(0, 100000000),
       .also = "warmup warmup_iters num_warmup_steps t_warmup"},
      {FIELD(train.warmup_from), .help = "share of the peak at step 0", .range = between(0, 1)},
      {FIELD(train.final_lr), .help = "share of the peak at the end", .range = between(0, 1),
       .also = "min_lr alpha_f lr_min"},
      {FIELD(train.decay_fraction), .help = "last share of the steps, in which the rate falls", .range = between(0, 1),
       .owner = "train.schedule", .owners = {"wsd"}},
      {FIELD(train.beta1), .help = "AdamW: decay of the mean", .range = probability(), .also = "betas adam_beta1"},
      {FIELD(train.beta2), .help = "AdamW: decay of the mean square", .range = probability(), .also = "adam_beta2"},
      {FIELD(train.eps), .help = "AdamW: added to the denominator", .range = above(0), .also = "adam_eps epsilon"},
      {FIELD(train.weight_decay), .help = "decoupled", .range = at_least(0), .also = "wd decay"},
      {FIELD(train.decay_embeddings), .help = "decay embeddings too"},
      {FIELD(train.decay_norms), .help = "decay the gains of norms too", .also = "decay_norm_and_bias"},
      {FIELD(train.clip), .help = "largest global gradient norm; 0: off", .range = at_least(0),
       .also = "max_grad_norm grad_clip clip_grad gradient_clip"},
      {FIELD(train.z_loss), .help = "weight of logsumexp^2", .range = at_least(0), .also = "softmax_z_loss"},
      {FIELD(train.ema), .help = "decay of averaged weights; 0: off", .range = probability(), .also = "ema_decay"},
      {FIELD(train.precision), .help = "type of the arithmetic", .words = {"float32", "bfloat16"}, .also = "amp bf16"},
      {FIELD(train.recompute), .help = "activations computed again in the backward pass instead of kept",
       .words = {"auto", "none", "norms", "feed_forward", "block"}, .unset = "feed_forward on a GPU, none on a CPU",
       .also = "activation_checkpointing gradient_checkpointing checkpointing"},
      {FIELD(train.graph), .help = "the training step captured as a CUDA graph", .words = {"auto", "on", "off"},
       .unset = "on a GPU, unless dropout or document masking makes steps differ", .also = "cuda_graph cuda_graphs"},
      {FIELD(train.deterministic), .help = "on a GPU: the same losses digit for digit every time, somewhat slower",
       .also = "deterministic_algorithms"},
      {FIELD(train.seed), .help = "of weights, data order and dropout", .range = at_least(0), .also = "random_seed"},

      {FIELD(eval.every), .help = "steps between evaluations; 0: only at the end", .range = at_least(0),
       .also = "eval_interval eval_every"},
      {FIELD(eval.batches), .help = "validation batches an evaluation; 0: all", .range = at_least(0),
       .also = "eval_iters"},
      {FIELD(eval.problems), .help = "arithmetic: held-out problems for exact match", .range = at_least(0)},
      {FIELD(checkpoint.every), .help = "steps between checkpoints; 0: only at the end", .range = at_least(0),
       .also = "save_interval save_every"},
      {FIELD(checkpoint.keep), .help = "newest checkpoints kept besides the best", .range = at_least(1)},
  };
}

#undef FIELD

}  // namespace

const std::vector<std::string>& scheme_names() {
  static const std::vector<std::string> names = {"pre",         "post",      "deepnorm",      "keel",      "mix_ln",
                                                 "ln_scaling",  "reordered", "sandwich",      "peri",      "hybrid",
                                                 "hybrid_star", "span",      "resi_dual",     "hc_static", "hc_dynamic",
                                                 "mhc",         "siamese",   "siamese_hybrid"};
  return names;
}

const std::vector<Field>& fields() {
  static const std::vector<Field> table = make_fields();
  return table;
}

}  // namespace siamese
