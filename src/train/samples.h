// Pictures drawn by a diffusion model.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "images/image.h"
#include "models/dit.h"
#include "models/sampler.h"

namespace siamese {

struct SampleRequest {
  std::vector<int64_t> labels;  // one a picture
  int64_t steps = 250, seed = 1, batch = 256;
  double cfg = 4.0;
  bool first_three = false;     // guidance on the first three channels only, as the published code
  std::string method = "ddpm";  // ddpm | ddim
  double eta = 0.0;
  /// Steps done and to do, over all batches.
  std::function<void(int64_t done, int64_t all)> progress;
  /// Called with the pictures of a batch after every step (trajectories); `first` is the number of its first one.
  std::function<void(int64_t step, int64_t first, const at::Tensor& x)> each_step;
};

/// What the model draws, [labels, C, size, size] in the model's own values: -1 … 1 for pixels.
at::Tensor sample(const DiT& model, const Recipe& recipe, const SampleRequest& request);
/// The same as pictures. Latents are shown as they are, their first three channels scaled to their own range.
std::vector<Image> sample_pictures(const DiT& model, const Recipe& recipe, const SampleRequest& request);
/// Values -1 … 1 (or normalised as the recipe says) of [N, C, size, size] as pictures.
std::vector<Image> to_pictures(const at::Tensor& x, const Recipe& recipe);
void write_sample_grid(const std::string& path, const std::vector<Image>& pictures, int columns);
/// What `sample` gave for `labels` as a file to train on or to decode: safetensors, `latents` divided by
/// diffusion.latent_scale (so in the scale of the file the model was trained on) and `labels` [N]. Throws Error where
/// the model draws pixels.
void write_latents(const std::string& path, const at::Tensor& x, const Recipe& recipe,
                   const std::vector<int64_t>& labels);
/// Throws Error where no file can be written at `path`: before minutes of work, not after them.
void require_file_place(const std::string& path);

}  // namespace siamese
