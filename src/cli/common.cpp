#include "cli/common.h"

#include <ATen/Parallel.h>

#include "nn/tensor_io.h"
#include "train/checkpoint.h"
#include "train/device.h"
#include "train/lm_task.h"
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

LoadedModel load_model(const std::string& path, at::Device device, bool average) {
  const Checkpoint checkpoint = find_checkpoint(path);
  LoadedModel loaded;
  loaded.checkpoint = checkpoint.folder();
  loaded.step = checkpoint.state().step;
  loaded.recipe = checkpoint.recipe();
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

}  // namespace siamese::cli
