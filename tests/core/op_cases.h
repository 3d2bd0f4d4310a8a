// The cases of the stream step, described once (ops/step_forms.h): they drive equality and gradients
// (test_stream_step.cpp, test_gpu_step.cpp) and speed (bench/ops_bench.cpp, siamese bench --ops).
#pragma once

#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "leaves.h"
#include "ops/step_forms.h"
#include "ops/stream_step.h"

namespace siamese {

enum class Affine { none, gain, gain_bias };

struct StepCase {
  StepForm form;
  NormKind kind = NormKind::rms;
  Affine affine = Affine::gain;
  at::ScalarType streams = at::kFloat, values = at::kFloat;
  int64_t rows = 1, d = 1;

  /// The new x stream is z itself, in the type of the values.
  bool z_is_x() const { return form.x && !form.y && form.norm_x && !form.norm_in; }
  std::string name() const {
    static const char* const affines[] = {"plain", "gain", "bias"};
    auto type = [](at::ScalarType t) { return t == at::kDouble ? "f64" : t == at::kFloat ? "f32" : "bf16"; };
    return fmt::format("{}_{}_{}_{}_{}", form.name, kind == NormKind::rms ? "rms" : "layer",
                       affines[static_cast<int>(affine)], type(streams), type(values));
  }
};

struct StepInputs {
  StreamStepInput in;
  NamedLeaves leaves;        // every tensor of `in`, all requiring gradients
  at::Tensor g_z, g_x, g_y;  // gradients of the outputs; undefined where there is none
};

inline StepInputs make_inputs(const StepCase& c) {
  StepInputs s;
  int64_t number = 1000 * c.d + 10 * c.rows;
  auto leaf = [&](const char* name, at::IntArrayRef shape, double mean, double std, at::ScalarType type) {
    const at::Tensor t = (random_normal(shape, number++) * std + mean).to(type).set_requires_grad(true);
    s.leaves.emplace_back(name, t);
    return t;
  };
  constexpr int64_t kSamples = 3;
  std::vector<int64_t> shape = {c.rows, c.d};
  if (c.form.per_sample()) shape.insert(shape.begin(), kSamples);
  if (c.form.x) s.in.x = leaf("x", shape, 0.3, 1.0, c.streams);
  if (c.form.y) s.in.y = leaf("y", shape, -0.2, 2.0, c.streams);
  if (c.form.r) s.in.r = leaf("r", shape, 0.1, 1.0, c.values);
  auto norm = [&](const char* gain, const char* bias) {
    Norm n{true, c.kind, 1e-5, {}, {}};
    if (c.affine != Affine::none) n.gain = leaf(gain, {c.d}, 1.0, 0.3, c.values);
    if (c.affine == Affine::gain_bias) n.bias = leaf(bias, {c.d}, 0.0, 0.3, c.values);
    return n;
  };
  if (c.form.norm_x) s.in.norm_x = norm("gain_x", "bias_x");
  if (c.form.norm_y) s.in.norm_y = norm("gain_y", "bias_y");
  if (c.form.norm_in) s.in.norm_in = norm("gain_in", "bias_in");
  if (c.form.c1) s.in.c1 = leaf("c1", {c.d}, 1.0, 0.3, c.values);
  if (c.form.norm_r) s.in.norm_r = norm("gain_r", "bias_r");
  if (c.form.gate) s.in.gate = leaf("gate", {kSamples, c.d}, 0.8, 0.5, c.values);
  if (c.form.modulation) s.in.shift = leaf("shift", {kSamples, c.d}, 0.1, 0.5, c.values);
  if (c.form.modulation) s.in.scale = leaf("scale", {kSamples, c.d}, 0.1, 0.5, c.values);
  if (c.form.row_scale) s.in.row_scale = at::tensor({2.0, 0.0, 1.25}).to(c.values);
  s.in.read_y = !c.form.skip_y;
  s.in.a = c.form.a;
  s.in.dtype = c.values;
  s.g_z = random_normal(shape, number++, c.values);
  if (c.form.x) s.g_x = random_normal(shape, number++, c.streams);
  if (c.form.y) s.g_y = random_normal(shape, number++, c.streams);
  return s;
}

/// Gradients of the leaves for the given gradients of the outputs (undefined: that output is not used).
inline std::vector<at::Tensor> step_gradients(const StreamStepOutput& out, const StepInputs& s, bool use_z = true,
                                              bool use_streams = true, bool retain = false) {
  torch::autograd::variable_list outputs, grads, leaves;
  auto add = [&](const at::Tensor& output, const at::Tensor& grad, bool use) {
    if (use && output.defined() && grad.defined()) outputs.push_back(output), grads.push_back(grad);
  };
  add(out.z, s.g_z, use_z);
  add(out.x, s.g_x, use_streams);
  add(out.y, s.g_y, use_streams);
  for (const auto& [name, t] : s.leaves) leaves.push_back(t);
  return torch::autograd::grad(outputs, leaves, grads, retain, false, /*allow_unused=*/true);
}

/// The same numbers in another type or on another device; an undefined type keeps each tensor's own.
inline StepInputs converted(const StepInputs& s, std::optional<at::ScalarType> type, at::Device device) {
  StepInputs t = s;
  auto to = [&](const at::Tensor& v) {
    return v.detach().to(device, type.value_or(v.scalar_type()), false, /*copy=*/true);
  };
  t.leaves.clear();
  auto convert = [&](at::Tensor& v) {
    if (!v.defined()) return;
    const at::Tensor from = v;
    v = to(v).set_requires_grad(true);
    for (const auto& [name, leaf] : s.leaves)
      if (leaf.is_same(from)) t.leaves.emplace_back(name, v);
  };
  for (at::Tensor* v : {&t.in.x, &t.in.y, &t.in.r, &t.in.norm_x.gain, &t.in.norm_x.bias, &t.in.norm_y.gain,
                        &t.in.norm_y.bias, &t.in.norm_in.gain, &t.in.norm_in.bias, &t.in.c1, &t.in.norm_r.gain,
                        &t.in.norm_r.bias, &t.in.gate, &t.in.shift, &t.in.scale})
    convert(*v);
  for (at::Tensor* g : {&t.g_z, &t.g_x, &t.g_y, &t.in.row_scale})
    if (g->defined()) *g = to(*g);
  t.in.dtype = type.value_or(s.in.dtype);
  return t;
}

/// In fp64, where the plain path is the truth the other types are held to.
inline StepInputs in_double(const StepInputs& s) { return converted(s, at::kDouble, at::kCPU); }

}  // namespace siamese
