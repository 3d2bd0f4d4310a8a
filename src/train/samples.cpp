#include "train/samples.h"

#include <ATen/ATen.h>

#include <cmath>
#include <filesystem>

#include "images/codec.h"
#include "images/transform.h"
#include "nn/tensor_io.h"
#include "util/error.h"

namespace siamese {

at::Tensor sample(const DiT& model, const Recipe& recipe, const SampleRequest& request) {
  const at::NoGradGuard no_grad;
  const ModelConfig& m = model.config();
  const at::Device device = model.params().device();
  if (!std::isfinite(request.cfg) || !std::isfinite(request.eta))
    fail("guidance {:g} and eta {:g}: both must be finite", request.cfg, request.eta);
  if (request.cfg != 1.0 && m.label_dropout <= 0)
    fail("guidance ({:g}) needs a model that was trained without labels at times; this one has model.label_dropout 0",
         request.cfg);
  for (const int64_t label : request.labels)
    if (label < 0 || label >= m.classes) fail("class {} does not exist: the model has 0 … {}", label, m.classes - 1);
  if (request.steps > recipe.diffusion.steps)
    fail("{} steps are more than the model was trained with, {}", request.steps, recipe.diffusion.steps);
  const Diffusion diffusion(recipe.diffusion, variance_for(m.learn_sigma), request.steps, device);
  const LabelledDenoiser denoise = [&](const at::Tensor& x, const at::Tensor& t, const at::Tensor& labels) {
    return model.predict(x, t, labels, {}).to(at::kFloat);
  };
  const int64_t all = static_cast<int64_t>(request.labels.size()), batches = (all + request.batch - 1) / request.batch;
  std::vector<at::Tensor> drawn;
  for (int64_t b = 0; b < batches; ++b) {
    const int64_t first = b * request.batch, n = std::min(request.batch, all - first);
    const at::Tensor labels =
        at::tensor(at::ArrayRef<int64_t>(request.labels).slice(static_cast<size_t>(first), static_cast<size_t>(n)))
            .to(device);
    SamplerOptions options;
    options.method = request.method, options.eta = request.eta, options.seed = request.seed, options.first = first;
    options.clip = recipe.data.source != "latents";
    options.each_step = [&](const SamplerStep& s) {
      if (request.progress) request.progress(b * s.total + s.done, batches * s.total);
      if (request.each_step) request.each_step(s.done, first, s.x);
    };
    const Denoiser denoiser = guided(denoise, labels, {request.cfg, model.no_label(), request.first_three});
    drawn.push_back(draw_samples(diffusion, denoiser, {n, m.channels, m.image_size, m.image_size}, options));
  }
  return at::cat(drawn);
}

std::vector<Image> to_pictures(const at::Tensor& x, const Recipe& recipe) {
  at::Tensor shown = x.to(at::kCPU, at::kFloat);
  if (recipe.data.source == "latents") {
    shown = shown.slice(1, 0, shown.size(1) < 3 ? 1 : 3);
    const at::Tensor low = shown.amin({1, 2, 3}, true), high = shown.amax({1, 2, 3}, true);
    shown = (shown - low) / (high - low + 1e-6);
  } else {
    const Normalize n = normalize_of(recipe.augment);
    const int64_t c = shown.size(1);
    const at::Tensor mean = at::tensor(at::ArrayRef<float>(n.mean, 3)).slice(0, 0, c).view({1, c, 1, 1});
    const at::Tensor deviation = at::tensor(at::ArrayRef<float>(n.deviation, 3)).slice(0, 0, c).view({1, c, 1, 1});
    shown = shown * deviation + mean;
  }
  shown = (shown * 255).round().clamp(0, 255).to(at::kByte).permute({0, 2, 3, 1}).contiguous();
  std::vector<Image> pictures;
  for (int64_t i = 0; i < shown.size(0); ++i) {
    Image image(static_cast<int>(shown.size(2)), static_cast<int>(shown.size(1)), static_cast<int>(shown.size(3)));
    const auto* from = shown[i].const_data_ptr<uint8_t>();
    image.pixels.assign(from, from + image.pixels.size());
    pictures.push_back(std::move(image));
  }
  return pictures;
}

std::vector<Image> sample_pictures(const DiT& model, const Recipe& recipe, const SampleRequest& request) {
  return to_pictures(sample(model, recipe, request), recipe);
}

void write_sample_grid(const std::string& path, const std::vector<Image>& pictures, int columns) {
  write_png(path, grid_of(pictures, columns));
}

void write_latents(const std::string& path, const at::Tensor& x, const Recipe& recipe,
                   const std::vector<int64_t>& labels) {
  if (recipe.data.source != "latents") fail("{}: data.source is {}, no latents", path, recipe.data.source);
  if (x.size(0) != static_cast<int64_t>(labels.size())) fail("{} samples with {} labels", x.size(0), labels.size());
  save_tensors(path, {{"latents", x.to(at::kCPU, at::kFloat) / recipe.diffusion.latent_scale},
                      {"labels", at::tensor(at::ArrayRef<int64_t>(labels))}});
}

void require_file_place(const std::string& path) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  if (!parent.empty() && !std::filesystem::is_directory(parent))
    fail("{}: the folder {} does not exist", path, parent.string());
  if (path.empty() || path.ends_with('/') || std::filesystem::is_directory(path))
    fail("{}: is a folder, expected the name of a file", path.empty() ? "''" : path);
}

}  // namespace siamese
