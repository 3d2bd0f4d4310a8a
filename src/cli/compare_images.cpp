// siamese compare-images A B --features CHECKPOINT|FILE
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <tuple>

#include "cli/common.h"
#include "images/validation_batch.h"
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

/// A folder's pictures as a classifier's heads see them.
struct Seen {
  at::Tensor features;
  std::string size;  // of the pictures, "32 × 32"; "" where they differ
  std::shared_ptr<UnreadPictures> unread = std::make_shared<UnreadPictures>();
};

/// Of a few, evenly spread: nothing but the pictures says how large they are.
std::string size_of_pictures(const ImageSet& set) {
  constexpr int64_t kProbes = 8;
  std::string size;
  for (int64_t i = 0, probes = std::min(kProbes, set.size()); i < probes; ++i) {
    try {
      const Image image = set.load(i * set.size() / probes);
      const std::string found = fmt::format("{} × {}", image.width, image.height);
      if (!size.empty() && found != size) return "";
      size = found;
    } catch (const Error&) {
      // For the reading of all of them to say or to leave out.
    }
  }
  return size;
}

Seen see(const LoadedImageModel<DeiT>& judge, const std::string& folder, const Options& o) {
  const at::NoGradGuard no_grad;
  Seen seen;
  const std::shared_ptr<const ImageSet> all = spread_over(make_folder_set(folder), o.limit);
  seen.size = size_of_pictures(*all);
  const std::shared_ptr<const ImageSet> set = watched(all, seen.unread);
  std::vector<at::Tensor> found;
  for (int64_t i = 0; i < set->size(); i += o.batch) {
    const int64_t n = std::min(o.batch, set->size() - i);
    const at::Tensor x = evaluation_batch(*set, judge.recipe, i, n, judge.model->params().device()).images;
    if (x.size(0) > 0) found.push_back(judge.model->features(x, {}).flatten(1).to(at::kDouble));
  }
  if (found.empty()) fail("none of the {} pictures of {} can be read", set->size(), folder);
  seen.features = at::cat(found);
  return seen;
}

at::Tensor features_in(const SafetensorsFile& file, const std::string& name) {
  const at::Tensor t = to_tensor(file.at(name));
  if (t.dim() != 2 || !at::isFloatingType(t.scalar_type())) fail("{}: '{}' must be numbers [N, D]", file.name(), name);
  return t;
}

/// Both by the same classifier, which sees all pictures in its own size.
std::pair<Seen, Seen> see_both(const LoadedImageModel<DeiT>& judge, const Options& o) {
  std::pair<Seen, Seen> both = {see(judge, o.a, o), see(judge, o.b, o)};
  const auto& [a, b] = both;
  // Not on stdout, which may be JSON.
  if (!a.size.empty() && !b.size.empty() && a.size != b.size)
    fmt::print(stderr, "note: pictures of {} are {}, those of {} {}: resizing to {}² changes them differently\n", o.a,
               a.size, o.b, b.size, judge.recipe.model.image_size);
  for (const auto& [seen, folder] : {std::pair(&a, &o.a), std::pair(&b, &o.b)})
    if (const std::string text = seen->unread->describe(); !text.empty()) fmt::print(stderr, "{}: {}\n", *folder, text);
  return both;
}

void run(const Options& o) {
  Seen a, b;
  std::string by;
  const at::Device device = o.apply();
  if (std::filesystem::is_directory(o.features)) {
    const LoadedImageModel<DeiT> judge = load_deit(o.features, device);
    by = fmt::format("{} (step {}{})", judge.checkpoint, judge.step, judge.averaged ? ", averaged weights" : "");
    std::tie(a, b) = see_both(judge, o);
  } else {
    const SafetensorsFile file(o.features);
    by = o.features;
    a.features = features_in(file, o.a);
    b.features = features_in(file, o.b);
  }
  const int64_t na = a.features.size(0), nb = b.features.size(0), width = a.features.size(1);
  if (width != b.features.size(1))
    fail("{}: '{}' is [{}, {}], '{}' [{}, {}]: both must be as wide", o.features, o.a, na, width, o.b, nb,
         b.features.size(1));
  const SetDistance d = distance_between(a.features.to(device), b.features.to(device), o.distance);
  // Subsets that are the whole sets do not differ.
  const bool spread = std::max(na, nb) > o.distance.subset_size;
  if (o.json) {
    fmt::print(
        "{{\"a\": {}, \"b\": {}, \"unreadable_a\": {}, \"unreadable_b\": {}, \"dimensions\": {}, \"frechet\": {:.6g}, "
        "\"kid\": {:.6g}, \"kid_deviation\": {}, \"precision\": {:.4f}, \"recall\": {:.4f}}}\n",
        na, nb, a.unread->count(), b.unread->count(), width, d.frechet, d.kid,
        spread ? fmt::format("{:.6g}", d.kid_deviation) : "null", d.precision, d.recall);
    return;
  }
  fmt::print("{} pictures in {} against {} in {}, {} features of {}\n", na, o.a, nb, o.b, width, by);
  const std::string deviation =
      spread ? fmt::format("± {:.6f} ({} subsets of at most {})", d.kid_deviation, o.distance.subsets,
                           o.distance.subset_size)
             : fmt::format("(no deviation: the sets are no larger than a subset, {})", o.distance.subset_size);
  fmt::print("frechet    {:.4f}\nkid        {:.6f} {}\nprecision  {:.4f}\nrecall     {:.4f}\n", d.frechet, d.kid,
             deviation, d.precision, d.recall);
  fmt::print("Only numbers from the same features and as many pictures compare.\n");
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
