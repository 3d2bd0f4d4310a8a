// siamese compare-images A B --features CHECKPOINT|FILE
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <filesystem>

#include "cli/common.h"
#include "io/safetensors.h"
#include "nn/tensor_io.h"
#include "train/image_distance.h"
#include "train/image_task.h"
#include "util/error.h"

namespace siamese::cli {
namespace {

struct Options : RunOptions {
  std::string a, b, features;
  DistanceOptions distance;
  int64_t batch = 256, limit = 0;
  bool json = false;
};

/// What a classifier's heads see of every picture of a folder.
at::Tensor features_of(const DeiT& model, const Recipe& recipe, const ImageSet& set, const Options& o) {
  const at::NoGradGuard no_grad;
  const int64_t all = set.size();
  std::vector<at::Tensor> found;
  for (int64_t i = 0; i < all; i += o.batch) {
    const at::Tensor x = evaluation_batch(set, recipe, i, std::min(o.batch, all - i), model.params().device()).images;
    found.push_back(model.features(x, {}).flatten(1).to(at::kDouble));
  }
  return at::cat(found);
}

at::Tensor features_in(const SafetensorsFile& file, const std::string& name) {
  const at::Tensor t = to_tensor(file.at(name));
  if (t.dim() != 2 || !at::isFloatingType(t.scalar_type())) fail("{}: '{}' must be numbers [N, D]", file.name(), name);
  return t;
}

void run(const Options& o) {
  at::Tensor a, b;
  std::string by;
  const at::Device device = o.apply();
  if (std::filesystem::is_directory(o.features)) {
    const LoadedImageModel<DeiT> loaded = load_deit(o.features, device);
    by = fmt::format("{} (step {}{})", loaded.checkpoint, loaded.step, loaded.averaged ? ", averaged weights" : "");
    a = features_of(*loaded.model, loaded.recipe, *spread_over(make_folder_set(o.a), o.limit), o);
    b = features_of(*loaded.model, loaded.recipe, *spread_over(make_folder_set(o.b), o.limit), o);
  } else {
    const SafetensorsFile file(o.features);
    by = o.features;
    a = features_in(file, o.a);
    b = features_in(file, o.b);
  }
  const SetDistance d = distance_between(a.to(device), b.to(device), o.distance);
  if (o.json) {
    fmt::print(
        "{{\"a\": {}, \"b\": {}, \"dimensions\": {}, \"frechet\": {:.6g}, \"kid\": {:.6g}, \"kid_deviation\": {:.6g}, "
        "\"precision\": {:.4f}, \"recall\": {:.4f}}}\n",
        a.size(0), b.size(0), a.size(1), d.frechet, d.kid, d.kid_deviation, d.precision, d.recall);
    return;
  }
  fmt::print("{} pictures in {} against {} in {}, {} features of {}\n", a.size(0), o.a, b.size(0), o.b, a.size(1), by);
  fmt::print(
      "frechet    {:.4f}\nkid        {:.6f} ± {:.6f} ({} subsets of at most {})\nprecision  {:.4f}\n"
      "recall     {:.4f}\nOnly numbers from the same features and as many pictures compare.\n",
      d.frechet, d.kid, d.kid_deviation, o.distance.subsets, o.distance.subset_size, d.precision, d.recall);
}

}  // namespace

void add_compare_images(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* sub =
      app.add_subcommand("compare-images", "Fréchet distance, KID, precision and recall between two sets of pictures");
  sub->add_option("a", o->a, "folder of class folders of real pictures; or a tensor's name in --features FILE")
      ->required();
  sub->add_option("b", o->b, "the same of generated ones")->required();
  sub->add_option(
         "--features", o->features,
         "a classifier's checkpoint or run; or a safetensors file of features [N, D], Inception's for instance")
      ->required();
  sub->add_option("--limit", o->limit, "pictures of either set (0: all)")->check(CLI::Range(0, 1 << 30));
  sub->add_option("--subsets", o->distance.subsets, "KID: subsets")
      ->capture_default_str()
      ->check(CLI::Range(1, 100000));
  sub->add_option("--subset-size", o->distance.subset_size, "KID: pictures of a subset")
      ->capture_default_str()
      ->check(CLI::Range(2, 1 << 20));
  sub->add_option("--neighbours", o->distance.neighbours, "precision and recall")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  sub->add_option("--batch", o->batch, "pictures at a time")->capture_default_str()->check(CLI::Range(1, 65536));
  sub->add_flag("--json", o->json, "a JSON line instead");
  o->add_to(sub);
  sub->footer(
      "Examples:\n  siamese compare-images cifar10/test samples --features runs/deit-cifar10\n"
      "  siamese compare-images real generated --features inception.safetensors");
  sub->callback([o] { run(*o); });
}

}  // namespace siamese::cli
