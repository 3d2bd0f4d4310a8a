#include "models/parity.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>

#include "models/deit.h"
#include "models/dit.h"
#include "models/language_model.h"
#include "models/parity_config.h"
#include "models/parity_diffusion.h"
#include "models/parity_error.h"
#include "models/published_names.h"
#include "nn/tensor_io.h"
#include "util/error.h"

namespace siamese {
namespace {

/// What a file's model gave here, by the names of its outputs; the last one is the loss, differentiated already.
using Outputs = std::vector<std::pair<std::string, at::Tensor>>;
/// From our parameters' names to the file's.
using Names = std::function<std::string(const std::string&)>;

at::Tensor input(const SafetensorsFile& file, const char* name, int64_t dims, const ParityOptions& options) {
  const at::Tensor t = to_tensor(file.at(std::string("input.") + name));
  if (t.dim() != dims) fail("{}: input.{} must have {} dimensions but has {}", file.name(), name, dims, t.dim());
  return (at::isFloatingType(t.scalar_type()) ? t.to(options.dtype) : t.to(at::kLong)).to(options.device);
}

/// Whole numbers 0 … count - 1, of which a stranger's file may hold others.
at::Tensor indices(const SafetensorsFile& file, const char* name, int64_t dims, int64_t count,
                   const ParityOptions& options) {
  const at::Tensor t = input(file, name, dims, options);
  if (t.numel() == 0 || t.min().item<int64_t>() < 0 || t.max().item<int64_t>() >= count)
    fail("{}: input.{} must hold numbers from 0 to {}", file.name(), name, count - 1);
  return t;
}

void load(const SafetensorsFile& file, const Params& params, const Names& names) {
  const at::NoGradGuard no_grad;
  for (const Parameter& p : params.all()) {
    const at::Tensor t = to_tensor(file.at("param." + names(p.name)));
    if (t.numel() != p.value.numel())
      fail("{}: '{}' has {} values, the model {}", file.name(), names(p.name), t.numel(), p.value.numel());
    at::Tensor(p.value).copy_(t.reshape(p.value.sizes()));
  }
}

Outputs run_lm(const SafetensorsFile& file, const LanguageModel& model, const ParityOptions& options) {
  const at::Tensor ids = indices(file, "ids", 2, model.config().vocab_size, options);
  if (ids.size(1) < 2) fail("{}: input.ids must be [batch, length] with a length of 2 or more", file.name());
  RoutingReport report;
  Forward forward;
  forward.routing = &report;
  const at::Tensor logits = model.logits(model.hidden(ids.slice(1, 0, ids.size(1) - 1), forward));
  const at::Tensor ce = at::cross_entropy_loss(logits.flatten(0, 1), ids.slice(1, 1).reshape({-1}));
  const MoeConfig& moe = model.config().moe;
  if (moe.experts == 0) return {{"logits", logits}, {"loss", ce}};
  const at::Tensor routers = at::stack(report.losses).mean(0);
  return {{"logits", logits},
          {"ce", ce},
          {"balance", routers[0]},
          {"router_z", routers[1]},
          {"expert_counts", at::stack(report.loads).slice(1, 0, moe.experts)},
          {"loss", ce + moe.balance_weight * routers[0] + moe.router_z_weight * routers[1]}};
}

at::Tensor pictures(const SafetensorsFile& file, const char* name, const ModelConfig& c, const ParityOptions& options) {
  const at::Tensor t = input(file, name, 4, options);
  if (t.size(1) != c.channels || t.size(2) != c.image_size || t.size(3) != c.image_size)
    fail("{}: input.{} must be [batch, {}, {}, {}]", file.name(), name, c.channels, c.image_size, c.image_size);
  return t;
}

Outputs run_deit(const SafetensorsFile& file, const DeiT& model, const ParityOptions& options) {
  const at::Tensor labels = indices(file, "labels", 1, model.config().classes, options);
  const DeitLogits logits = model.logits(pictures(file, "images", model.config(), options), {});
  const at::Tensor loss = at::cross_entropy_loss(logits.classes, labels);
  if (!logits.distilled.defined()) return {{"logits", logits.classes}, {"loss", loss}};
  return {{"logits", logits.classes},
          {"logits_dist", logits.distilled},
          {"loss", (loss + at::cross_entropy_loss(logits.distilled, labels)) / 2}};
}

Outputs run_dit(const SafetensorsFile& file, const DiT& model, const ParityOptions& options) {
  const at::Tensor labels = indices(file, "y", 1, model.config().classes + 1, options);
  const at::Tensor t = indices(file, "t", 1, int64_t{1} << 24, options);
  const at::Tensor out = model.predict(pictures(file, "x", model.config(), options), t, labels, {});
  return {{"prediction", out}, {"loss", out.square().mean()}};
}

ParityResult compare(const SafetensorsFile& file, const Params& params, const Names& names, const Outputs& outputs) {
  Worst output, gradient;
  for (const auto& [name, value] : outputs) output.add(value, to_tensor(file.at("output." + name)), 1e-6, name);
  double scale = 0;
  for (const auto& [name, view] : file.tensors())
    if (name.starts_with("grad.")) scale = std::max(scale, largest_abs(exact(to_tensor(view))));
  if (scale == 0) fail("{}: holds no gradients to compare with", file.name());
  for (const Parameter& p : params.all()) {
    const auto it = file.tensors().find("grad." + names(p.name));
    if (it == file.tensors().end()) continue;  // a constant
    const at::Tensor grad = p.value.grad().defined() ? p.value.grad() : at::zeros_like(p.value);
    gradient.add(grad, to_tensor(it->second), 0.01 * scale, p.name);
  }
  ParityResult result;
  result.output_error = output.error, result.worst_output = output.name;
  result.gradient_error = gradient.error, result.worst_gradient = gradient.name;
  return result;
}

}  // namespace

ParityResult check_parity(const std::string& path, const ParityOptions& options) {
  const SafetensorsFile file(path);
  const auto meta = file.metadata().find("model");
  const std::string kind = meta == file.metadata().end() ? "" : meta->second;
  if (kind == kDiffusionGolden) return check_diffusion_parity(file, path, options);
  ModelConfig config = golden_config(file);
  config.fused = options.fused;
  ModelOptions model_options;
  model_options.dtype = model_options.stream_dtype = options.dtype;
  model_options.device = options.device;
  if (config.family == "lm") {
    LanguageModel model(config, model_options);
    load_tensors(file, named(model.params()), "param.");
    const Outputs out = run_lm(file, model, options);
    torch::autograd::backward({out.back().second});
    ParityResult result = compare(
        file, model.params(), [](const std::string& name) { return name; }, out);
    // The official files were written in fp32: they cannot agree better than that.
    if (options.dtype == at::kDouble && kind == "lm") result.output_bound = result.gradient_bound = 1e-6;
    return result;
  }
  const Names names = [&](const std::string& ours) { return published_name(config.family, ours); };
  auto check = [&](auto& model, const auto& run, Outputs extra) {
    load(file, model.params(), names);
    Outputs out = run(file, model, options);
    torch::autograd::backward({out.back().second});
    ParityResult result = compare(file, model.params(), names, out);
    Worst fixed;  // constants of ours that the file has as parameters
    for (const auto& [name, value] : extra) fixed.add(value, to_tensor(file.at("param." + name)), 1e-6, name);
    if (!(fixed.error <= result.output_error)) result.output_error = fixed.error, result.worst_output = fixed.name;
    return result;
  };
  if (config.family == "deit") {
    DeiT model(config, model_options);
    return check(model, run_deit, {});
  }
  DiT model(config, model_options);
  return check(model, run_dit, {{"pos_embed", model.positions()}});
}

}  // namespace siamese
