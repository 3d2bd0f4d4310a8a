#include "models/parity_diffusion.h"

#include <ATen/ATen.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "models/diffusion.h"
#include "models/parity_error.h"
#include "nn/tensor_io.h"

namespace siamese {
namespace {

using nlohmann::json;

struct Golden {
  DiffusionConfig diffusion;
  Variance variance = Variance::learned_range;
  int64_t respace = 0;  // 0: the file does not respace
};

template <class T>
T one_of(const std::string& path, const char* key, const std::string& value, const std::map<std::string, T>& known) {
  const auto it = known.find(value);
  if (it == known.end()) fail("{}: config: {} '{}' is not one this program knows", path, key, value);
  return it->second;
}

/// "250", 250, or nothing: evenly spaced steps. Other spacings of the published code ("ddim50", "10,20") are refused.
int64_t read_respacing(const json& j, const std::string& path) {
  if (!j.contains("respacing") || j["respacing"].is_null()) return 0;
  const json& value = j["respacing"];
  if (value.is_number_integer()) return value.get<int64_t>();
  const std::string text = value.get<std::string>();
  if (text.empty()) return 0;
  int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || end != text.data() + text.size())
    fail("{}: config: respacing '{}' is not one this program knows", path, text);
  return n;
}

Golden read_config(const SafetensorsFile& file, const std::string& path) {
  const auto it = file.metadata().find("config");
  if (it == file.metadata().end()) fail("{}: not a golden file: its metadata has no 'config'", path);
  try {
    const json j = json::parse(it->second);
    auto text = [&](const char* key, const char* otherwise) { return j.value(key, std::string(otherwise)); };
    Golden g;
    g.diffusion.steps = j.at("steps").get<int64_t>();
    if (g.diffusion.steps < 2 || g.diffusion.steps > 100000)
      fail("{}: config: steps is {} instead of 2 to 100000", path, g.diffusion.steps);
    g.diffusion.schedule =
        one_of<std::string>(path, "schedule", text("schedule", "linear"),
                            {{"linear", "linear"}, {"cosine", "cosine"}, {"squaredcos_cap_v2", "cosine"}});
    g.diffusion.predict =
        one_of<std::string>(path, "predict", text("predict", "epsilon"), {{"epsilon", "epsilon"}, {"v", "v"}});
    g.variance = one_of<Variance>(path, "variance", text("variance", "learned_range"),
                                  {{"learned_range", Variance::learned_range},
                                   {"fixed_large", Variance::fixed_large},
                                   {"fixed_small", Variance::fixed_small}});
    if (!text("loss", "mse").starts_with("mse"))
      fail("{}: config: loss '{}' is not one this program knows", path, text("loss", ""));
    g.respace = read_respacing(j, path);
    if (g.respace < 0 || g.respace > g.diffusion.steps)
      fail("{}: config: respacing {} is not possible with {} steps", path, g.respace, g.diffusion.steps);
    return g;
  } catch (const json::exception& e) {
    fail("{}: 'config' cannot be read: {}", path, e.what());
  }
}

/// `input.<name>` [batch] int64 in [0, steps); on the CPU, since indices are checked.
at::Tensor read_steps(const SafetensorsFile& file, const std::string& path, const std::string& name, int64_t batch,
                      int64_t steps) {
  const at::Tensor t = to_tensor(file.at("input." + name)).to(at::kLong);
  if (t.dim() != 1 || t.size(0) != batch || t.min().item<int64_t>() < 0 || t.max().item<int64_t>() >= steps)
    fail("{}: input.{} must be {} steps below {}", path, name, batch, steps);
  return t;
}

at::Tensor of(const std::vector<double>& values) { return at::tensor(values, at::kDouble); }

}  // namespace

ParityResult check_diffusion_parity(const SafetensorsFile& file, const std::string& path,
                                    const ParityOptions& options) {
  const Golden g = read_config(file, path);
  const Diffusion full(g.diffusion, g.variance, 0, options.device);
  auto input = [&](const std::string& name) {
    return to_tensor(file.at("input." + name)).to(options.device, options.dtype);
  };
  const at::Tensor x0 = input("x_start"), noise = input("noise"), model_output = input("model_output");
  if (x0.dim() < 2 || x0.numel() == 0 || noise.sizes() != x0.sizes())
    fail("{}: input.x_start and input.noise must be [batch, channels, ...] alike", path);
  std::vector<int64_t> shape = x0.sizes().vec();
  if (g.variance == Variance::learned_range) shape[1] *= 2;
  if (model_output.sizes() != at::IntArrayRef(shape))
    fail("{}: input.model_output does not have the shape that input.x_start and the variance ask for", path);
  const at::Tensor t = read_steps(file, path, "t", x0.size(0), full.steps()).to(options.device);

  // x_0 is clipped nowhere: the numbers of the file say so.
  const at::Tensor x_t = full.q_sample(x0, t, noise);
  const DiffusionLosses losses = full.training_losses(model_output, x0, x_t, t, noise);
  const ReverseStep p = full.p_mean_variance(model_output, x_t, t, /*clip=*/false);
  std::map<std::string, at::Tensor> outputs = {{"x_t", x_t},
                                               {"mse", losses.mse},
                                               {"vb", losses.vb},
                                               {"loss", losses.loss},
                                               {"p_mean", p.mean},
                                               {"p_variance", p.variance},
                                               {"p_log_variance", p.log_variance},
                                               {"pred_xstart", p.pred_xstart},
                                               {"betas", of(full.betas())},
                                               {"alphas_cumprod", of(full.alphas_cumprod())}};
  if (g.respace > 0) {
    const Diffusion respaced(g.diffusion, g.variance, g.respace, options.device);
    outputs["respaced_timestep_map"] = at::tensor(respaced.timestep_map(), at::kLong);
    outputs["respaced_betas"] = of(respaced.betas());
    if (file.tensors().contains("input.respaced_t")) {
      const at::Tensor s = read_steps(file, path, "respaced_t", x0.size(0), respaced.steps()).to(options.device);
      outputs["ddim_sample"] =
          respaced.ddim_step(respaced.p_mean_variance(model_output, x_t, s, /*clip=*/false), x_t, s,
                             /*eta=*/0, {});
    }
  }

  Worst worst;
  for (const auto& [name, view] : file.tensors()) {
    if (!name.starts_with("output.")) continue;
    const std::string output = name.substr(7);
    const auto it = outputs.find(output);
    if (it == outputs.end() || !it->second.defined()) fail("{}: '{}' is not computed here", path, name);
    worst.add(it->second, to_tensor(view), 1e-6, output);
  }
  if (worst.name.empty()) fail("{}: holds no outputs to compare with", path);
  ParityResult result;
  result.output_error = worst.error, result.worst_output = worst.name;
  result.worst_gradient = "none in the file";
  return result;
}

}  // namespace siamese
