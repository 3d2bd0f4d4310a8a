// siamese bench WORKLOAD|RECIPE ... --schemes a,b: the time of a training step; --ops: of each operator.
#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "cli/bench_ops.h"
#include "cli/bench_workloads.h"
#include "cli/common.h"
#include "cli/profile.h"
#include "train/device.h"
#include "train/execution.h"
#include "train/models.h"
#include "train/out_of_memory.h"
#include "train/step_runner.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/progress.h"
#include "util/text.h"

namespace siamese::cli {
namespace {

struct Options : RunOptions {
  std::vector<std::string> workloads, set;
  std::string schemes = "pre,siamese,siamese_hybrid";
  int64_t steps = 10, rounds = 0, parts = 1;
  double rest = 8;
  bool json = false, eager = false, profile = false, ops = false;
};

class Bench {
 public:
  explicit Bench(const Options& o)
      : o_(o),
        device_(o.apply()),
        rounds_(o.rounds > 0       ? o.rounds
                : device_.is_cpu() ? 3
                                   : 1) {
    if (device_.is_cuda()) name_ = gpu_tools()->device_name();
  }

  void run() {
    std::vector<std::vector<Row>> all;  // every mistake is found before anything is timed
    for (const std::string& workload : o_.workloads)
      all.push_back(rows_of(workload, o_.schemes, o_.set, o_.parts, device_));
    for (size_t i = 0; i < all.size(); ++i) warn_of_memory(o_.workloads[i], all[i], device_);
    for (size_t i = 0; i < all.size(); ++i) {
      const auto print = [&] { print_rows(o_.workloads[i], all[i], {device_, name_, o_.parts, o_.rest, o_.json}); };
      try {
        device_.is_cuda() ? one_by_one(all[i]) : in_turns(all[i]);
      } catch (...) {  // what was measured before is shown all the same
        const size_t schemes = all[i].size();
        std::erase_if(all[i], [](const Row& row) { return !row.measured; });
        if (!all[i].empty()) print();
        rethrow(schemes);
      }
      print();
    }
  }

 private:
  [[noreturn]] void rethrow(size_t schemes) const {
    try {
      rethrow_with_advice(failing_, device_);
    } catch (const OutOfMemory& e) {
      if (device_.is_cuda() || schemes == 1) throw;
      throw OutOfMemory(e.what(), e.advice() + fmt::format("  bench itself: the models of {} schemes take turns, and "
                                                           "all have their memory; fewer --schemes\n",
                                                           schemes));
    }
  }

  /// The first step: from the start of the process for the first row, from the row's own start for the others.
  void begin(Row& row) {
    const double from = begun_ ? seconds_now() : process_start();
    begun_ = true;
    failing_ = row.recipe;
    row.graph = prepare_execution(row.recipe, device_).graph && !o_.eager;
    row.step = 0;
    row.runner = std::make_unique<StepRunner>(row.recipe, device_, row.graph, o_.parts);
    row.parameters = static_cast<double>(active_parameters(row.runner->params(), row.recipe.model));
    row.runner->step(++row.step).cpu();  // waits for a GPU
    row.first_step_s = seconds_now() - from;
  }

  /// ms
  template <class Work>
  double timed(const Work& work) const {
    if (device_.is_cpu()) {
      const double t0 = seconds_now();
      work();
      return 1e3 * (seconds_now() - t0);
    }
    const c10::impl::VirtualGuardImpl guard(c10::kCUDA);
    c10::Event a(c10::kCUDA, c10::EventFlag::BACKEND_DEFAULT), b(c10::kCUDA, c10::EventFlag::BACKEND_DEFAULT);
    a.record(guard.getStream(device_));
    work();
    b.record(guard.getStream(device_));
    gpu_tools()->synchronize();
    return a.elapsedTime(b);
  }
  double timed_step(Row& row) const {
    return timed([&] { row.runner->step(++row.step); });
  }
  /// Clip and update by themselves, the fastest of a few.
  void time_updates(Row& row) const {
    constexpr int kTimes = 3;
    try {
      for (int i = 0; i < kTimes; ++i) {
        row.runner->differentiate();
        const double ms = timed([&] { row.runner->update(++row.step); });
        row.update_ms = i == 0 ? ms : std::min(row.update_ms, ms);
      }
    } catch (const c10::OutOfMemoryError&) {  // beside a graph, which keeps its memory: it stays unknown
    }
  }

  /// On a GPU each scheme has the memory to itself, so that its peak can be read, and rests after its first step, which
  /// may have tuned products: under its power cap a GPU that has been busy is slower. The cap comes and goes within a
  /// second or two: several turns tell two schemes apart better than one long one.
  void one_by_one(std::vector<Row>& rows) {
    for (int64_t round = 0; round < rounds_; ++round)
      for (Row& row : rows) {
        gpu_tools()->release();
        gpu_tools()->reset_peak();
        const double first_step_s = row.first_step_s;
        begin(row);
        if (round > 0) row.first_step_s = first_step_s;
        std::this_thread::sleep_for(std::chrono::duration<double>(o_.rest));
        for (int i = 0; i < 4; ++i) timed_step(row);
        for (int64_t i = 0; i < o_.steps; ++i) row.ms.push_back(timed_step(row));
        if (round == 0) finish(row);
        row.runner.reset();
      }
  }

  /// What is known after one turn. Memory is read there: on an H200 later turns began with some 0.5 GiB of those
  /// before.
  void finish(Row& row) {
    row.peak_gb = static_cast<double>(gpu_tools()->peak_bytes()) / (1 << 30);
    row.measured = true;
    time_updates(row);
    if (!o_.profile) return;
    fmt::print("{} {}, one step, kernel by kernel:\n{}", row.recipe.name, row.recipe.model.scheme,
               profile_kernels(
                   [&] {
                     for (int i = 0; i < 3; ++i) row.runner->step(++row.step);
                     gpu_tools()->synchronize();
                   },
                   3));
  }

  /// On a CPU schemes take turns, so that a machine that slows down slows all of them.
  void in_turns(std::vector<Row>& rows) {
    ProgressOptions options;
    options.terminal = stderr_is_terminal();
    Progress progress("bench", static_cast<int64_t>(rows.size()) * (1 + rounds_ * (o_.steps + 1)), options);
    int64_t done = 0;
    for (Row& row : rows) {
      begin(row);
      progress.update(++done, fmt::format("{} {}", row.recipe.name, row.recipe.model.scheme));
    }
    for (int64_t round = 0; round < rounds_; ++round)
      for (Row& row : rows) {
        for (int64_t i = 0; i <= o_.steps; ++i) {
          const double ms = timed_step(row);
          if (i > 0) row.ms.push_back(ms);  // the first after a change of model warms the caches
          progress.update(++done, fmt::format("{} {}, {:.1f} ms", row.recipe.name, row.recipe.model.scheme, ms));
        }
        row.measured = true;
      }
    for (Row& row : rows) {
      time_updates(row);
      row.runner.reset();
    }
  }

  const Options& o_;
  at::Device device_;
  const int64_t rounds_;
  std::string name_;
  bool begun_ = false;
  Recipe failing_;  // of the last row that began: whose memory ran out
};

}  // namespace

void add_bench(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand("bench", "Time a training step under several schemes");
  sub->add_option("workloads", o->workloads,
                  "lm-400m, lm-1.2b, deit-s, dit-b2 (as the comparison with PyTorch has them) or recipes; with --ops "
                  "parts of operators' names (default: all)");
  sub->add_option("--schemes", o->schemes, "comma-separated; overheads are against pre, without it the first")
      ->capture_default_str();
  sub->add_option("--set", o->set, "override a key of the recipe: a.b=c (repeatable)")->allow_extra_args(false);
  sub->add_option("--steps", o->steps, "timed steps a round")->capture_default_str()->check(CLI::Range(1, 1000000));
  sub->add_option("--rounds", o->rounds, "rounds, in which the schemes take turns (default: 3, on a GPU 1)")
      ->check(CLI::Range(1, 1000));
  sub->add_option("--parts", o->parts, "micro-batches a step")->capture_default_str()->check(CLI::Range(1, 1000));
  sub->add_option("--rest", o->rest, "on a GPU: seconds of rest after the first step of every turn")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 600.0));
  sub->add_flag("--json", o->json, "JSON lines instead of a table");
  sub->add_flag("--eager", o->eager, "on a GPU: without a CUDA graph");
  sub->add_flag("--profile", o->profile, "on a GPU: also where the time goes, kernel by kernel");
  sub->add_flag("--ops", o->ops, "on a GPU: each operator against a copy of as many bytes, with cold caches");
  o->add_to(sub);
  sub->footer(
      "Examples:\n  siamese bench lm-tiny --schemes pre,siamese --threads 2\n"
      "  siamese bench lm-400m lm-1.2b --schemes pre,siamese,siamese_hybrid --json\n"
      "  siamese bench --ops stream_step adamw\n\n"
      "first step s: from the start of the process for the first row, of its own for the others; until its result is\n"
      "there. MFU: 6 N + 6 L d T a token against the GPU's dense bf16 rate.");
  sub->callback([o, sub] {
    const auto refuse = [sub](std::initializer_list<const char*> options, const char* why) {
      for (const char* option : options)
        if (sub->count(option) > 0) throw UsageError(fmt::format("bench: {} {}", option, why));
    };
    if (o->ops) {
      refuse({"--schemes", "--set", "--steps", "--rounds", "--parts", "--rest", "--eager", "--profile"},
             "is for training steps, not for --ops");
      return bench_ops(o->device, o->json, o->workloads);
    }
    for (const std::string& set : o->set)
      if (set.starts_with("model.scheme=")) throw UsageError(fmt::format("bench: --set {}: name it in --schemes", set));
    if (o->workloads.empty()) throw UsageError("bench: name a workload or a recipe, or --ops");
    if (select_device(o->device).is_cpu()) refuse({"--eager", "--profile", "--rest"}, "is for a GPU");
    Bench(*o).run();
  });
}

}  // namespace siamese::cli
