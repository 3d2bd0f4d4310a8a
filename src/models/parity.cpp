#include "models/parity.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "models/language_model.h"
#include "models/parity_config.h"
#include "nn/tensor_io.h"
#include "util/error.h"

namespace siamese {
namespace {

double largest(const at::Tensor& t) { return t.numel() == 0 ? 0.0 : t.abs().max().item<double>(); }

/// Errors are taken in fp64 on the CPU whatever the run's type.
at::Tensor exact(const at::Tensor& t) { return t.detach().to(at::kCPU, at::kDouble); }

struct Worst {
  double error = 0;
  std::string name;
  void add(const at::Tensor& got, const at::Tensor& want, double floor, const std::string& at_name) {
    if (got.numel() != want.numel())
      fail("'{}' has {} values here and {} in the file", at_name, got.numel(), want.numel());
    const at::Tensor a = exact(got).reshape({-1}), b = exact(want).reshape({-1});
    const double e = largest(a - b) / (largest(b) + floor);
    if (!(e <= error)) error = e, name = at_name;  // NaN counts as worst
  }
};

}  // namespace

ParityResult check_parity(const std::string& path, const ParityOptions& options) {
  const SafetensorsFile file(path);
  ModelConfig config = golden_config(file);
  config.fused = options.fused;
  ModelOptions model_options;
  model_options.dtype = model_options.stream_dtype = options.dtype;
  model_options.device = options.device;
  LanguageModel model(config, model_options);
  load_tensors(file, named(model.params()), "param.");

  const at::Tensor ids = to_tensor(file.at("input.ids")).to(at::kLong);
  if (ids.dim() != 2 || ids.size(1) < 2) fail("{}: input.ids must be [batch, length] with a length of 2 or more", path);
  if (ids.min().item<int64_t>() < 0 || ids.max().item<int64_t>() >= config.vocab_size)
    fail("{}: input.ids holds an id outside the vocabulary of {}", path, config.vocab_size);
  const at::Tensor in = ids.to(options.device),
                   logits = model.logits(model.hidden(in.slice(1, 0, ids.size(1) - 1), {}));
  const at::Tensor loss = at::cross_entropy_loss(logits.flatten(0, 1), in.slice(1, 1).reshape({-1}));
  torch::autograd::backward({loss});

  ParityResult result;
  // The official files were written in fp32: they cannot agree better than that.
  if (options.dtype == at::kDouble && file.metadata().at("model") == "lm")
    result.output_bound = result.gradient_bound = 1e-6;
  Worst output, gradient;
  output.add(logits, to_tensor(file.at("output.logits")), 1e-6, "logits");
  output.add(loss, to_tensor(file.at("output.loss")), 1e-6, "loss");
  double scale = 0;
  for (const auto& [name, view] : file.tensors())
    if (name.starts_with("grad.")) scale = std::max(scale, largest(exact(to_tensor(view))));
  if (scale == 0) fail("{}: holds no gradients to compare with", path);
  for (const Parameter& p : model.params().all()) {
    const auto it = file.tensors().find("grad." + p.name);
    if (it == file.tensors().end()) continue;  // a constant
    const at::Tensor grad = p.value.grad().defined() ? p.value.grad() : at::zeros_like(p.value);
    gradient.add(grad, to_tensor(it->second), 0.01 * scale, p.name);
  }
  result.output_error = output.error, result.worst_output = output.name;
  result.gradient_error = gradient.error, result.worst_gradient = gradient.name;
  return result;
}

}  // namespace siamese
