#include "train/divergence.h"

#include <ATen/ATen.h>

#include <cmath>

#include "train/checkpoint.h"
#include "util/error.h"

namespace siamese {

std::string bad_parameter(const Params& params) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> largest;  // not a number, where there is such a value
  for (const Parameter& p : params.all()) largest.push_back(at::linalg_vector_norm(p.value, INFINITY).to(at::kDouble));
  if (at::isfinite(at::stack(largest)).all().item<bool>()) return "";
  for (const Parameter& p : params.all())
    if (!at::isfinite(p.value).all().item<bool>()) return "parameter " + p.name;
  return "";
}

std::string divergence_advice(const Recipe& recipe, const std::string& run) {
  const std::vector<std::string> saved = list_checkpoints(run);
  return fmt::format(
      "{}. Try a lower train.lr (now {:g}), a longer train.warmup_steps (now {}), train.clip (now {:g}), "
      "or train.precision float32",
      saved.empty() ? "" : "; the last checkpoint is " + saved.back(), recipe.train.lr, recipe.train.warmup_steps,
      recipe.train.clip);
}

}  // namespace siamese
