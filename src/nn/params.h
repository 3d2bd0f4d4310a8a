// A model's parameters: named leaf tensors in a fixed order, each with its way of starting and its optimizer group.
// Names are those of the golden files and of our checkpoints.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace siamese {

/// Decides weight decay (train/optimizer). state: no parameter, but part of the model and its checkpoints all the same;
/// it has no gradient and is not counted.
enum class ParamKind { matrix, embedding, norm, other, state };

/// constant: `value` everywhere. normal: truncated normal of standard deviation `value`, cut at `cutoff` deviations.
/// uniform: in ±value. diagonal: `value` on the diagonal, `cutoff` off it. one_hot: 1 at index `value`, else 0.
struct InitSpec {
  enum Kind { constant, normal, uniform, diagonal, one_hot } kind = constant;
  double value = 0;
  double cutoff = 0;
  /// normal and uniform: rows from `split` on use `split_scale` times the value (deepnorm's value rows of the fused
  /// QKV).
  int64_t split = -1;
  double split_scale = 1;
};

struct Parameter {
  std::string name;
  at::Tensor value;
  ParamKind kind;
  InitSpec init;
};

class Params {
 public:
  Params(at::ScalarType dtype, at::Device device) : options_(at::TensorOptions().dtype(dtype).device(device)) {}

  /// Adds a parameter; its memory is not filled until `initialise`. Returns a handle to the same tensor.
  at::Tensor add(const std::string& name, at::IntArrayRef shape, ParamKind kind, const InitSpec& init);
  /// The same in fp32 where parameters are bf16.
  at::Tensor add_exact(const std::string& name, at::IntArrayRef shape, ParamKind kind, const InitSpec& init);

  /// Fills every parameter from the seed. A value depends on the parameter's name, not on its place, so that two
  /// schemes start with the same projections. Drawn in fp32 and rounded once.
  void initialise(int64_t seed);

  const std::vector<Parameter>& all() const { return all_; }
  /// Throws Error with the nearest name when there is none.
  const Parameter& at(const std::string& name) const;
  bool has(const std::string& name) const;
  /// Handles of all parameters whose name starts with `prefix`.
  std::vector<at::Tensor> with_prefix(const std::string& prefix) const;
  int64_t count() const;
  at::ScalarType dtype() const { return options_.dtype().toScalarType(); }
  at::Device device() const { return options_.device(); }

 private:
  at::Tensor add(const std::string& name, at::IntArrayRef shape, ParamKind kind, const InitSpec& init,
                 const at::TensorOptions& options);
  at::TensorOptions options_;
  std::vector<Parameter> all_;
};

}  // namespace siamese
