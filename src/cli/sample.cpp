// siamese sample CHECKPOINT --classes 0-9 --steps 250 --cfg 4.0 --seed 1 -o grid.png
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "cli/common.h"
#include "images/codec.h"
#include "train/samples.h"
#include "util/error.h"
#include "util/progress.h"

namespace siamese::cli {
namespace {

struct Options : RunOptions {
  std::string checkpoint, classes, out = "grid.png", singles, latents;
  SampleRequest request;
  int64_t steps = 0;
  double cfg = -1;
  int64_t each = 8, trajectory = 0;
  bool raw = false;
};

/// "0-9", "3", "1,4,7-9".
std::vector<int64_t> numbers_in(const std::string& text, int64_t below) {
  std::vector<int64_t> all;
  auto number = [&](const std::string& part) {
    size_t used = 0;
    int64_t n = -1;
    try {
      n = std::stoll(part, &used);
    } catch (const std::exception&) {
    }
    if (part.empty() || used != part.size() || n < 0)
      fail("--classes {}: '{}' is neither a number nor a range such as 0-9", text, part);
    if (n >= below) fail("--classes {}: the model has classes 0 … {}", text, below - 1);
    return n;
  };
  for (const std::string& part : split(text, ',')) {
    const size_t dash = part.find('-');
    const int64_t first = number(part.substr(0, dash)),
                  last = dash == std::string::npos ? first : number(part.substr(dash + 1));
    if (last < first) fail("--classes {}: {} is before {}", text, last, first);
    for (int64_t n = first; n <= last; ++n) all.push_back(n);
  }
  if (all.empty()) fail("--classes '{}' names no class", text);
  return all;
}

/// CLI::Range lets nan through: it is neither below nor above anything.
std::string no_nan(const std::string& text) {
  return std::isnan(std::strtod(text.c_str(), nullptr)) ? text + " is not a number" : "";
}

void run(const Options& o) {
  require_file_place(o.out);
  if (!o.latents.empty()) require_file_place(o.latents);
  if (!o.singles.empty() && std::filesystem::exists(o.singles) && !std::filesystem::is_empty(o.singles))
    fail("--singles {}: is not empty; pictures of two calls would mix", o.singles);
  const LoadedImageModel<DiT> loaded = load_dit(o.checkpoint, o.apply(), o.raw);
  if (!o.latents.empty() && loaded.recipe.data.source != "latents")
    fail("--latents {}: the model draws pixels (data.source {}); --singles writes each picture by itself", o.latents,
         loaded.recipe.data.source);
  SampleRequest request = o.request;
  const ModelConfig& m = loaded.model->config();
  request.steps = o.steps > 0 ? o.steps : std::min<int64_t>(250, loaded.recipe.diffusion.steps);
  request.cfg = o.cfg >= 0 ? o.cfg : m.label_dropout > 0 ? 4.0 : 1.0;
  const std::string classes_asked =
      !o.classes.empty() ? o.classes : fmt::format("0-{}", std::min<int64_t>(10, m.classes) - 1);
  for (const int64_t c : numbers_in(classes_asked, m.classes))
    request.labels.insert(request.labels.end(), static_cast<size_t>(o.each), c);
  fmt::print("checkpoint {} (step {}{}), {} pictures, {} steps of {}, guidance {:g}, seed {}\n", loaded.checkpoint,
             loaded.step, loaded.averaged ? ", averaged weights" : "", request.labels.size(), request.steps,
             request.method, request.cfg, request.seed);
  std::fflush(stdout);
  Progress progress("sample", 0, stderr_is_terminal());
  request.progress = [&](int64_t done, int64_t all) { progress.update(done, fmt::format("of {} steps", all)); };
  // The first picture of every class, at moments evenly spread over the steps, the last one included.
  const int64_t classes = static_cast<int64_t>(request.labels.size()) / o.each,
                moments = std::min(o.trajectory, request.steps);
  std::vector<at::Tensor> way(static_cast<size_t>(classes * moments));
  if (moments > 0)
    request.each_step = [&](int64_t step, int64_t first, const at::Tensor& x) {
      for (int64_t i = 0; i < moments; ++i) {
        if ((i + 1) * request.steps / moments != step) continue;
        for (int64_t c = (first + o.each - 1) / o.each; c < classes && c * o.each < first + x.size(0); ++c)
          way[static_cast<size_t>(c * moments + i)] = x[c * o.each - first].to(at::kCPU);
      }
    };
  const at::Tensor drawn = sample(*loaded.model, loaded.recipe, request);
  progress.finish();
  if (!o.latents.empty()) {  // first: what cannot be had from the pictures
    write_latents(o.latents, drawn, loaded.recipe, request.labels);
    fmt::print("wrote   {}\n", o.latents);
  }
  const std::vector<Image> pictures = to_pictures(drawn, loaded.recipe);
  write_sample_grid(o.out, pictures, static_cast<int>(o.each));
  fmt::print("wrote   {}\n", o.out);
  if (!o.singles.empty()) {
    // As wide as the largest number, so that folders sort by class.
    const size_t digits = fmt::format("{}", loaded.model->config().classes - 1).size();
    for (size_t i = 0; i < pictures.size(); ++i) {
      const std::string folder = fmt::format("{}/{:0{}}", o.singles, request.labels[i], digits);
      std::filesystem::create_directories(folder);
      write_png(fmt::format("{}/{:06}.png", folder, i), pictures[i]);
    }
    fmt::print("wrote   {} pictures in class folders below {}\n", pictures.size(), o.singles);
  }
  if (moments > 0) {
    const std::string path = std::filesystem::path(o.out).replace_extension().string() + "-trajectory.png";
    // A row a class, from noise on the left to the picture on the right.
    write_sample_grid(path, to_pictures(at::stack(way), loaded.recipe), static_cast<int>(moments));
    fmt::print("wrote   {}\n", path);
  }
}

}  // namespace

void add_sample(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand("sample", "Draw pictures with a diffusion model");
  sub->add_option("checkpoint", o->checkpoint, "a checkpoint or a run folder (its newest checkpoint)")->required();
  sub->add_option("--classes", o->classes, "numbers and ranges: 0-9 or 1,4,7-9 (default: the first ten)");
  sub->add_option("--each", o->each, "pictures a class, a row of the grid")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000000));
  sub->add_option("--steps", o->steps, "steps from noise to picture (default: 250, or as many as the model has)")
      ->check(CLI::Range(1, 100000));
  sub->add_option("--cfg", o->cfg, "classifier-free guidance; 1: none (default: 4 where the model can)")
      ->check(CLI::Range(0.0, 1000.0))
      ->check(no_nan);
  sub->add_flag("--cfg-first-three", o->request.first_three,
                "guide the first three channels only, as DiT's published code does");
  sub->add_option("--method", o->request.method, "ddpm or ddim")
      ->capture_default_str()
      ->check(CLI::IsMember({"ddpm", "ddim"}));
  sub->add_option("--eta", o->request.eta, "ddim: share of noise")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1.0))
      ->check(no_nan);
  sub->add_option("--seed", o->request.seed, "the same seed gives the same pictures")->capture_default_str();
  sub->add_option("--batch", o->request.batch, "pictures at a time")
      ->capture_default_str()
      ->check(CLI::Range(1, 65536));
  sub->add_option("-o,--out", o->out, "the grid; of latents it shows the first three channels, stretched")
      ->capture_default_str();
  sub->add_option("--singles", o->singles, "also every picture by itself, in class folders below this one");
  sub->add_option("--latents", o->latents,
                  "models of latents: also a safetensors file with latents [N, C, H, W] in the scale of the file the "
                  "model was trained on, and labels [N]");
  sub->add_option("--trajectory", o->trajectory, "also a picture of this many moments on the way from noise")
      ->check(CLI::Range(1, 1000));
  sub->add_flag("--raw", o->raw, "not the averaged weights");
  o->add_to(sub);
  sub->footer("Example:\n  siamese sample runs/dit-shapes --classes 0-9 --steps 250 --cfg 4.0 --seed 1 -o grid.png");
  sub->callback([o] { run(*o); });
}

}  // namespace siamese::cli
