// Combinations that image models cannot work with.
#include <algorithm>
#include <array>

#include "recipe/clash.h"
#include "recipe/schema.h"
#include "recipe/value.h"

namespace siamese {
namespace {

bool of_images(const std::string& source) {
  constexpr std::array<std::string_view, 5> kSources = {"folder", "cifar10", "idx", "shapes", "latents"};
  return std::find(kSources.begin(), kSources.end(), source) != kSources.end();
}

void check_data(const Draft& draft, const Recipe& r) {
  const DataConfig& d = r.data;
  if (of_images(d.source) != (r.model.family != "lm"))
    clash(draft, {"data.source", "model.family"}, "data.source {} does not go with model.family {}", d.source,
          r.model.family);
  if (r.model.family == "lm") return;
  if (!d.text.empty() || !d.tokens.empty())
    clash(draft, {"data.text", "data.tokens", "model.family"},
          "data.text and data.tokens are for model.family lm, not {}", r.model.family);
  if (d.source == "shapes" && !d.images.empty())
    clash(draft, {"data.images", "data.source"}, "data.images is set, but data.source is shapes");
  if (d.source != "shapes" && d.images.empty())
    clash(draft, {"data.source", "data.images"}, "data.source {} needs data.images", d.source);
  if (d.source != "latents" && r.model.channels != 1 && r.model.channels != 3)
    clash(draft, {"model.channels", "data.source"},
          "model.channels ({}) must be 1 (grey) or 3 (colour): data.source {} has pictures", r.model.channels,
          d.source);
  if (d.source == "latents" && r.model.family != "dit")
    clash(draft, {"data.source", "model.family"}, "data.source latents is for model.family dit, not {}",
          r.model.family);
}

void check_model(const Draft& draft, const ModelConfig& m) {
  if (m.image_size % m.patch_size != 0)
    clash(draft, {"model.image_size", "model.patch_size"},
          "model.image_size ({}) is not a multiple of model.patch_size ({})", m.image_size, m.patch_size);
  if (m.family == "dit" && m.d_model % 4 != 0)
    clash(draft, {"model.d_model"},
          "model.d_model ({}) must be a multiple of 4: positions of model.family dit are "
          "sines and cosines of columns and rows",
          m.d_model);
  if (m.n_kv_heads != m.n_heads)
    clash(draft, {"model.n_kv_heads", "model.n_heads"}, "model.n_kv_heads ({}) must be model.n_heads ({}) in family {}",
          m.n_kv_heads, m.n_heads, m.family);
  if (m.qk_norm == "projection")
    clash(draft, {"model.qk_norm"}, "model.qk_norm projection is for model.family lm, not {}", m.family);
}

void check_diffusion(const Draft& draft, const Recipe& r) {
  const DiffusionConfig& d = r.diffusion;
  if (d.sample_cfg != 1 && r.model.label_dropout <= 0)
    clash(draft, {"model.label_dropout", "diffusion.sample_cfg"},
          "diffusion.sample_cfg ({:g}) needs model.label_dropout above 0; without it, it has to be 1", d.sample_cfg);
  if (d.sample_steps > d.steps)
    clash(draft, {"diffusion.sample_steps", "diffusion.steps"},
          "diffusion.sample_steps ({}) is more than diffusion.steps ({})", d.sample_steps, d.steps);
  const AugmentConfig& a = r.augment;
  if (a.mixup > 0 || a.cutmix > 0 || a.smoothing > 0)
    clash(draft, {"augment.mixup", "augment.cutmix", "augment.smoothing"},
          "augment.mixup, cutmix and smoothing are for model.family deit: a diffusion model has no targets to mix");
  if (r.model.embedding_dropout > 0)
    clash(draft, {"model.embedding_dropout"}, "model.embedding_dropout is not for model.family dit");
}

/// Latents come as they are: only their autoencoder can turn a picture before it makes one of it. Normalising is of
/// pictures too, but every family has a default of its own for it.
void check_latents(const Draft& draft, const Recipe& r) {
  for (const Field& field : fields()) {
    if (!field.path.starts_with("augment.") || field.path == "augment.normalize") continue;
    if (get(field, r) == default_of(field)) continue;
    clash(draft, {field.path, "data.source"},
          "{} ({}) is for pictures; data.source latents goes without augmentation: what is flipped or cropped belongs "
          "into the file, as latents of its own",
          field.path, write_value(get(field, r)));
  }
}

void check_teacher(const Draft& draft, const Recipe& r) {
  const DistillConfig& d = r.distill;
  if (d.kind == "none" && !d.teacher.empty())
    clash(draft, {"distill.teacher", "distill.kind"}, "distill.teacher is set, but distill.kind is none");
  if (d.kind == "none") return;
  if (d.teacher.empty())
    clash(draft, {"distill.kind"}, "distill.kind {} needs a checkpoint in distill.teacher", d.kind);
  if (r.model.family != "deit")
    clash(draft, {"distill.kind", "model.family"}, "distill.kind {} is for model.family deit, not {}", d.kind,
          r.model.family);
}

}  // namespace

void check_images(const Draft& draft, const Recipe& r) {
  check_data(draft, r);
  check_teacher(draft, r);
  if (r.model.family == "lm") return;
  check_model(draft, r.model);
  const AugmentConfig& a = r.augment;
  if (r.model.family == "dit") check_diffusion(draft, r);
  if (r.data.source == "latents") check_latents(draft, r);
  if (r.model.family == "dit" && r.data.source != "latents" && a.normalize != "half")
    clash(draft, {"augment.normalize", "model.family"},
          "augment.normalize must be half: diffusion takes values -1 … 1");
  if (r.diffusion.schedule == "linear" && r.diffusion.steps <= 20)
    clash(draft, {"diffusion.steps", "diffusion.schedule"},
          "diffusion.steps ({}) must be above 20 with diffusion.schedule linear, whose noise would be complete at once",
          r.diffusion.steps);
  if (r.train.sequence_length != TrainConfig{}.sequence_length)
    clash(draft, {"train.sequence_length"}, "train.sequence_length is for model.family lm, not {}", r.model.family);
}

}  // namespace siamese
