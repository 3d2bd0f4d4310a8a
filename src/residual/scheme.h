// The one interface between models and residual schemes. A scheme decides what a sub-layer reads from the residual
// streams and how its output is written back; a model never knows which scheme, or which kernel, runs.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nn/linear.h"
#include "nn/params.h"
#include "ops/stream_step.h"
#include "recipe/recipe.h"

namespace siamese {

/// Sub-layer k of the stack: attention 2l, feed-forward 2l+1 of block l.
struct Site {
  int k = 0;
  int block() const { return k / 2; }
  bool attention() const { return k % 2 == 0; }
};

/// What becomes of the value read: z·(1+scale) + shift (adaLN; both [B, d], undefined: absent), then the product with
/// `into`, the layer that consumes it. A scheme that is given that layer may rebuild z in the backward pass instead of
/// keeping it, unless `keep` says otherwise, and may hand over the product's SwiGLU where that comes next. With `turn`
/// the product comes with rotary positions, and its gradient is that before them.
struct Modulation {
  at::Tensor shift, scale;
  const Linear* into = nullptr;
  bool keep = false, swiglu = false;
  Turn turn = {};
};

/// A sub-layer's output r, an optional gate [B, d] (times r before anything else) and an optional factor per sample
/// [B] (DropPath, one mask for all streams, applied to what is written).
struct Update {
  at::Tensor r, gate, row_scale;
};

/// All state between two sub-layers: a plain value. `pending` is an update that was handed in but not written yet, so
/// that the next read can do both in one pass over memory.
struct Streams {
  std::vector<at::Tensor> s;
  Update pending;    // r undefined: nothing pending
  Site site;         // of the last read, whose update is or was pending
  at::Tensor stats;  // defined: s[0] is raw, the norm of its last read is pending on it (ops/stream_step.h)

  /// To tensors and back: what block recomputation saves. `like` gives the structure.
  std::vector<at::Tensor> flatten() const;
  static Streams unflatten(const Streams& like, const std::vector<at::Tensor>& tensors);
  /// The structure alone, with empty tensors: holds no memory and no graph.
  Streams skeleton() const;
};

struct Read {
  at::Tensor input;  // of the sub-layer; multiplied by Modulation::into where that is given
  Streams streams;
  at::Tensor activated = {};  // SwiGLU of `input` without gradient, where it was wanted and was at hand
};

enum class AttentionNorm { none, qk, qkv };
/// value: the value rows of the fused QKV; output: attention output; ff_in, ff_out: the feed-forward's matrices.
enum class Role { query_key, value, output, ff_in, ff_out };

/// What a scheme is built from. `input_affine` and `final_norm` are false in DiT, where the block's affine-free
/// LayerNorm takes the place of input norms and the final layer brings its own norm.
struct SchemeContext {
  const ModelConfig& config;
  Params& params;
  bool input_affine = true;
  bool final_norm = true;
  at::ScalarType stream_dtype = at::kFloat;

  int blocks() const { return static_cast<int>(config.n_layers); }
  /// A norm with parameters `transformer.<name>.weight` (and `.bias`); width 0: d_model.
  Norm norm(const std::string& name, int64_t width = 0) const;
  Norm input_norm(const std::string& name) const;
  /// One norm a sub-layer, `blocks.<l>.<attn|ff>_<suffix>`; `input`: as `input_norm`.
  std::vector<Norm> norms(const std::string& suffix, bool input = false) const;
  /// The norm at the end of the stack; off where the model's final layer brings its own.
  Norm end_norm(const std::string& name) const { return final_norm ? norm(name) : Norm{}; }
  static std::string block_name(const Site& site, const std::string& suffix);  // blocks.3.attn_norm
};

class Scheme {
 public:
  explicit Scheme(const SchemeContext& context);
  virtual ~Scheme() = default;

  /// All streams begin as the embedding.
  virtual Streams start(const at::Tensor& embedding) const;
  /// Writes what is pending and reads the input of `site`.
  virtual Read read(Streams streams, const Site& site, const Modulation& modulation = {}) const = 0;
  /// Hands in the output of `site`; it stays pending until the next read or the end.
  virtual Streams write(Streams streams, Update update, const Site& site) const;
  /// What the head sees.
  virtual at::Tensor finish(Streams streams) const = 0;

  virtual AttentionNorm attention_norm(const Site&) const { return AttentionNorm::none; }
  /// Factor on the initial deviation that replaces the recipe's own depth scaling; nullopt: the recipe's.
  virtual std::optional<double> init_scale(Role, int /*block*/, int /*blocks*/) const { return std::nullopt; }

 protected:
  /// The plain write: streams with `r` (gated; times row_scale where it is written) added at `site`.
  virtual Streams apply(Streams streams, const at::Tensor& r, const at::Tensor& row_scale, const Site& site) const = 0;
  /// Writes the pending update by `apply`.
  Streams settle(Streams streams) const;
  /// z times `into`, turned.
  static at::Tensor product(const at::Tensor& z, const Modulation& modulation);
  /// z·(1+scale) + shift, times `into`: what a sub-layer reads beside these streams.
  Read modulated(const at::Tensor& z, const Modulation& modulation, Streams streams) const;
  static at::Tensor rows(const at::Tensor& r, const at::Tensor& row_scale);
  at::Tensor normed(const at::Tensor& x, const Norm& norm) const { return apply_norm(x, norm, dtype_, fused_); }
  /// x + r in the stream's type.
  static at::Tensor add(const at::Tensor& x, const at::Tensor& r) { return x + r.to(x.scalar_type()); }
  /// One stream step on the pending update of `streams`, modulation and product included: fused as a whole where the
  /// device's kernels know all of it, otherwise the core fused and the rest around it.
  StreamStepOutput step(StreamStepInput in, const Streams& streams, const Modulation& modulation = {}) const;
  /// A step on x = streams.s[0], on which `last` may be pending.
  static StreamStepInput on_x(const Streams& streams, const Norm& last);

  const ModelConfig config_;
  const int blocks_;
  const bool fused_;
  const at::ScalarType dtype_, stream_dtype_;  // of values, of streams
};

/// A row of the table of schemes.
struct SchemeInfo {
  const char* name;
  const char* formula;  // one sub-layer
  const char* end;      // end of the stack
  const char* about;
  std::unique_ptr<Scheme> (*make)(const SchemeContext&);
};
const std::vector<SchemeInfo>& scheme_table();
std::unique_ptr<Scheme> make_scheme(const SchemeContext& context);

}  // namespace siamese
