// What several subcommands share: device and threads, a checkpoint opened for use.
#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "models/deit.h"
#include "models/dit.h"
#include "models/language_model.h"
#include "recipe/recipe.h"

namespace siamese::cli {

struct RunOptions {
  std::string device = "auto";
  int threads = 0;  // 0: LibTorch's choice

  void add_to(CLI::App* sub);
  /// Sets the number of threads and returns the device.
  at::Device apply() const;
};

/// A trained model ready to use.
struct LoadedModel {
  std::string checkpoint;
  int64_t step = 0;
  Recipe recipe;
  std::unique_ptr<LanguageModel> model;
};
/// A language model from a checkpoint or run folder; `average` takes the averaged weights instead.
LoadedModel load_model(const std::string& path, at::Device device, bool average = false);

/// Image models likewise; averaged weights are taken where there are some, unless `raw`.
template <class Model>
struct LoadedImageModel {
  std::string checkpoint;
  int64_t step = 0;
  bool averaged = false;
  Recipe recipe;
  std::unique_ptr<Model> model;
};
LoadedImageModel<DeiT> load_deit(const std::string& path, at::Device device, bool raw = false);
LoadedImageModel<DiT> load_dit(const std::string& path, at::Device device, bool raw = false);
/// The family of a checkpoint's model.
std::string family_of(const std::string& path);

/// In single quotes where a shell would need them.
std::string shell_quoted(const std::string& text);
std::vector<std::string> split(const std::string& text, char separator);
/// Of a value of --schemes; refuses none and one named twice.
std::vector<std::string> scheme_names_in(const std::string& schemes);

}  // namespace siamese::cli
