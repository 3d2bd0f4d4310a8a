// siamese parity FILE...: golden files against this program.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>

#include "cli/commands.h"
#include "models/parity.h"
#include "train/device.h"
#include "util/error.h"
#include "util/text.h"

namespace siamese::cli {
namespace {

struct Options {
  std::vector<std::string> files;
  std::string device = "cpu", dtype = "float32";
  bool plain = false;
};

int run(const Options& o) {
  ParityOptions options;
  options.device = select_device(o.device);
  options.dtype = o.dtype == "float64" ? at::kDouble : at::kFloat;
  options.fused = !o.plain;
  int failures = 0;
  for (const std::string& file : o.files) {
    const std::string name = std::filesystem::path(file).stem().string();
    try {
      const ParityResult r = check_parity(file, options);
      fmt::print("{:<32} output {:.2e}  gradient {:.2e}  {}\n", name, r.output_error, r.gradient_error,
                 r.ok() ? "ok" : "FAIL");
      if (!r.ok()) {
        ++failures;
        fmt::print(stderr, "siamese parity: {}: bounds {:.0e} and {:.0e}; worst output {}, worst gradient {}\n", file,
                   r.output_bound, r.gradient_bound, r.worst_output, r.worst_gradient);
      }
    } catch (const std::exception& e) {  // the other files are still looked at
      ++failures;
      const std::string what = e.what(), line = what.substr(0, what.find('\n'));  // LibTorch adds a backtrace
      fmt::print("{:<32} not compared  FAIL\n", name);
      const bool named = line.find(file) != std::string::npos;
      fmt::print(stderr, "siamese parity: {}\n", printable(named ? line : file + ": " + line, SIZE_MAX));
    }
    std::fflush(stdout);
  }
  return failures == 0 ? 0 : 1;
}

}  // namespace

void add_parity(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand("parity", "Compare golden files with this program, forward and backward");
  sub->add_option("files", o->files, "golden .safetensors files")->required();
  sub->add_option("--device", o->device, "auto, cpu or cuda")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}));
  sub->add_option("--dtype", o->dtype, "float32 or float64")
      ->capture_default_str()
      ->check(CLI::IsMember({"float32", "float64"}));
  sub->add_flag("--plain", o->plain, "use the plain path instead of the fused operators");
  sub->footer("Example:\n  siamese parity tests/golden/*.safetensors --dtype float64");
  sub->callback([o] { exit_status = run(*o); });
}

}  // namespace siamese::cli
