#include "cli/common.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "nn/tensor_io.h"
#include "train/checkpoint.h"
#include "train/device.h"
#include "train/models.h"
#include "util/error.h"

namespace siamese::cli {

void RunOptions::add_to(CLI::App* sub) {
  sub->add_option("--device", device, "auto, cpu or cuda")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}));
  sub->add_option("--threads", threads, "CPU threads (default: all cores)")->check(CLI::Range(1, 4096));
}

at::Device RunOptions::apply() const {
  if (threads > 0) at::set_num_threads(threads);
  return select_device(device);
}

namespace {

void require_family(const Checkpoint& checkpoint, const Recipe& recipe, const char* wanted) {
  if (recipe.model.family != wanted)
    fail("{} is a model of family {}, not {}", checkpoint.folder(), recipe.model.family, wanted);
}

template <class Model>
LoadedImageModel<Model> load_images(const std::string& path, at::Device device, bool raw, const char* family,
                                    std::unique_ptr<Model> (*make)(const Recipe&, at::Device)) {
  const Checkpoint checkpoint = find_checkpoint(path);
  LoadedImageModel<Model> loaded;
  loaded.checkpoint = checkpoint.folder();
  loaded.step = checkpoint.state().step;
  loaded.recipe = checkpoint.recipe();
  require_family(checkpoint, loaded.recipe, family);
  loaded.averaged = !raw && checkpoint.has("ema.safetensors");
  loaded.model = make(loaded.recipe, device);
  const at::NoGradGuard no_grad;
  load_tensors(checkpoint.open(loaded.averaged ? "ema.safetensors" : "model.safetensors"),
               named(loaded.model->params()));
  return loaded;
}

}  // namespace

std::string family_of(const std::string& path) { return find_checkpoint(path).recipe().model.family; }

LoadedImageModel<DeiT> load_deit(const std::string& path, at::Device device, bool raw) {
  return load_images<DeiT>(path, device, raw, "deit", make_deit);
}
LoadedImageModel<DiT> load_dit(const std::string& path, at::Device device, bool raw) {
  return load_images<DiT>(path, device, raw, "dit", make_dit);
}

LoadedModel load_model(const std::string& path, at::Device device, bool average) {
  const Checkpoint checkpoint = find_checkpoint(path);
  LoadedModel loaded;
  loaded.checkpoint = checkpoint.folder();
  loaded.step = checkpoint.state().step;
  loaded.recipe = checkpoint.recipe();
  require_family(checkpoint, loaded.recipe, "lm");
  loaded.model = make_lm(loaded.recipe, device);
  load_tensors(checkpoint.open(average ? "ema.safetensors" : "model.safetensors"), named(loaded.model->params()));
  return loaded;
}

std::string shell_quoted(const std::string& text) {
  const bool plain = !text.empty() && text.find_first_not_of(
                                          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                          "_-+=./:,@%") == std::string::npos;
  if (plain) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::string part;
  for (const char c : text) {
    if (c != separator) {
      part += c;
    } else if (!part.empty()) {
      parts.push_back(std::exchange(part, {}));
    }
  }
  if (!part.empty()) parts.push_back(part);
  return parts;
}

std::vector<std::string> scheme_names_in(const std::string& schemes) {
  const std::vector<std::string> names = split(schemes, ',');
  if (names.empty()) fail("--schemes '{}' names no scheme", schemes);
  for (const std::string& name : names)
    if (std::count(names.begin(), names.end(), name) > 1) fail("--schemes {}: '{}' is named twice", schemes, name);
  return names;
}

}  // namespace siamese::cli
