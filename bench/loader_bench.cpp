// Speed of the image loader against a plain decode-and-resize loop over the same files, on the same number of threads:
//   build/loader_bench [--files 2000] [--rounds 7] [--threads 0] [--folder DIR] [--json]
// Modes take turns, so that whatever else the machine does meets all of them; medians and quartiles are over rounds.
// --folder keeps the files for the next call. The table goes to stderr with --json, the lines to stdout.
#include <time.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>

#include "images/image_loader.h"
#include "photo_files.h"
#include "plain_loop.h"
#include "util/clock.h"
#include "util/error.h"

namespace siamese {
namespace {

constexpr int kSize = 224, kClasses = 10;
constexpr int64_t kBatch = 100;

struct Arguments {
  int64_t files = 2000, rounds = 7, threads = 0;
  std::string folder;
  bool json = false;
};

/// Of one mode in one round.
struct Measurement {
  int64_t samples = 0;
  double seconds = 0, processor = 0;  // processor: seconds of all threads
  LoaderTimes split;                  // of the loader
  double per_second() const { return static_cast<double>(samples) / seconds; }
  double milliseconds(double total) const { return 1e3 * total / static_cast<double>(samples); }
};

struct Mode {
  std::string name, what;
  std::function<Measurement(int64_t round)> run;
  std::vector<Measurement> rounds;
};

double processor_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

template <class Call>
Measurement timed(int64_t samples, Call call) {
  Measurement m;
  m.samples = samples;
  const double start = seconds_now(), processor = processor_seconds();
  m.split = call();
  m.seconds = seconds_now() - start;
  m.processor = processor_seconds() - processor;
  return m;
}

AugmentConfig crop_and_flip() {
  AugmentConfig config;
  config.crop = "resized";
  config.flip = 0.5;
  return config;
}

/// As recipes/deit-s.yaml has it.
AugmentConfig deit(int64_t repeats) {
  AugmentConfig config = crop_and_flip();
  config.rand_augment = 9;
  config.color_jitter = 0.3;
  config.erasing = 0.25;
  config.mixup = 0.8;
  config.cutmix = 1;
  config.smoothing = 0.1;
  config.repeats = repeats;
  return config;
}

/// A round makes as many samples as there are files, in the midst of a run: before the clock starts a few batches take
/// their memory, which later ones take over (with a cache: all pictures are decoded), and when it stops the loader is
/// at work on the next ones, as it was at the start. Batches are not copied: that is the training thread's.
Measurement load(const std::shared_ptr<const ImageSet>& set, const AugmentConfig& augment, const std::string& cache,
                 int64_t threads, int64_t round) {
  constexpr int64_t kAhead = 5;  // more than the loader works ahead
  DataConfig data;
  data.cache = cache;
  data.workers = threads;
  ImageLoaderOptions options;
  options.batch_size = std::min(kBatch, set->size());
  options.classes = kClasses;
  const int64_t steps = set->size() / options.batch_size, before = cache == "on" ? steps : kAhead;
  options.first_step = round * steps;
  options.end_step = options.first_step + before + steps + kAhead;
  options.size = kSize;
  options.targets = augment.mixup > 0;
  ImageLoader loader(set, data, augment, options);
  const auto run = [&](int64_t count) {
    for (int64_t step = 0; step < count; ++step) loader.recycle(loader.next());
    return loader.times();
  };
  const LoaderTimes start = run(before);
  return timed(steps * options.batch_size, [&] {
    const LoaderTimes end = run(steps);
    return LoaderTimes{end.decode - start.decode, end.augment - start.augment, end.waited - start.waited};
  });
}

std::vector<Mode> modes_of(const std::vector<std::string>& paths, const std::string& folder, int64_t threads) {
  const std::shared_ptr<const ImageSet> set = make_folder_set(folder);
  if (set->size() != static_cast<int64_t>(paths.size())) fail("{}: holds other files as well", folder);
  const auto plain = [=](Filter filter) {
    return [=](int64_t) {
      return timed(static_cast<int64_t>(paths.size()), [&] {
        plain_loop(paths, kSize, filter, threads);
        return LoaderTimes{};
      });
    };
  };
  // Small sets are decoded once by themselves, and nothing would be left to measure: the cache is off but for one row.
  const auto loader = [=](const AugmentConfig& augment, const std::string& cache = "off") {
    return [=](int64_t round) { return load(set, augment, cache, threads, round); };
  };
  return {{"plain", "plain loop, bilinear", plain(Filter::bilinear), {}},
          {"plain_bicubic", "plain loop, bicubic", plain(Filter::bicubic), {}},
          {"crop_flip", "loader, random part and flip", loader(crop_and_flip()), {}},
          {"deit", "loader, DeiT's augmentation", loader(deit(1)), {}},
          {"deit_repeated", "loader, DeiT's, 3 of a file", loader(deit(3)), {}},
          {"crop_flip_cached", "loader, part and flip, cached", loader(crop_and_flip(), "on"), {}}};
}

/// At share 0 … 1 of the sorted rounds.
template <class F>
double quantile(const std::vector<Measurement>& rounds, double share, F value) {
  std::vector<double> values;
  for (const Measurement& m : rounds) values.push_back(value(m));
  std::sort(values.begin(), values.end());
  const double place = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(place), above = std::min(below + 1, values.size() - 1);
  return values[below] + (place - static_cast<double>(below)) * (values[above] - values[below]);
}

double speed(const Measurement& m) { return m.per_second(); }
double processor(const Measurement& m) { return m.milliseconds(m.processor); }

/// Median over rounds of the speed in proportion to the plain loop's in the same round.
double ratio_of(const Mode& mode, const Mode& plain) {
  size_t round = 0;
  return quantile(mode.rounds, 0.5, [&](const Measurement& m) { return speed(m) / speed(plain.rounds[round++]); });
}

void print_line(const Mode& mode, size_t round, int64_t threads) {
  const Measurement& m = mode.rounds[round];
  fmt::print(
      "{{\"bench\": \"loader\", \"mode\": \"{}\", \"round\": {}, \"threads\": {}, \"samples\": {}, \"seconds\": "
      "{:.4f}, \"samples_per_s\": {:.1f}, \"cpu_ms\": {:.4f}, \"decode_ms\": {:.4f}, \"augment_ms\": {:.4f}}}\n",
      mode.name, round, threads, m.samples, m.seconds, speed(m), processor(m), m.milliseconds(m.split.decode),
      m.milliseconds(m.split.augment));
  std::fflush(stdout);
}

void print_summary(const std::vector<Mode>& modes, bool json) {
  std::FILE* out = json ? stderr : stdout;
  fmt::print(out, "{:30} {:>9} {:>17} {:>6} {:>7} {:>7} {:>8}\n", "", "samples/s", "(quartiles)", "ratio", "CPU ms",
             "decode", "augment");
  for (const Mode& mode : modes) {
    const double low = quantile(mode.rounds, 0.25, speed), high = quantile(mode.rounds, 0.75, speed);
    const double middle = quantile(mode.rounds, 0.5, speed), ratio = ratio_of(mode, modes[0]);
    const double cpu = quantile(mode.rounds, 0.5, processor),
                 cpu_ratio = quantile(modes[0].rounds, 0.5, processor) / cpu;
    const auto part = [&](double LoaderTimes::*which) {
      return quantile(mode.rounds, 0.5, [&](const Measurement& m) { return m.milliseconds(m.split.*which); });
    };
    fmt::print(out, "{:30} {:9.0f} {:>17} {:6.2f} {:7.3f} {:7.3f} {:8.3f}\n", mode.what, middle,
               fmt::format("({:.0f} … {:.0f})", low, high), ratio, cpu, part(&LoaderTimes::decode),
               part(&LoaderTimes::augment));
    if (json) {
      fmt::print(
          "{{\"bench\": \"loader\", \"mode\": \"{}\", \"rounds\": {}, \"samples_per_s\": {:.1f}, \"p25\": {:.1f}, "
          "\"p75\": {:.1f}, \"ratio\": {:.3f}, \"cpu_ms\": {:.4f}, \"cpu_ratio\": {:.3f}}}\n",
          mode.name, mode.rounds.size(), middle, low, high, ratio, cpu, cpu_ratio);
    }
  }
}

Arguments parse(int count, char** words) {
  Arguments a;
  const std::map<std::string, int64_t*> numbers = {
      {"--files", &a.files}, {"--rounds", &a.rounds}, {"--threads", &a.threads}};
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (word == "--json") {
      a.json = true;
    } else if (word == "--folder" && i + 1 < count) {
      a.folder = words[++i];
    } else if (numbers.contains(word) && i + 1 < count) {
      *numbers.at(word) = std::stoll(words[++i]);
    } else {
      fail("loader_bench: {} is not understood", word);
    }
  }
  if (a.files < 1 || a.rounds < 1) fail("loader_bench: at least one file and one round are needed");
  return a;
}

void bench(const Arguments& a) {
  const TemporaryFolder temporary;
  const std::string folder = a.folder.empty() ? temporary.path() : a.folder;
  const int64_t threads = worker_count(a.threads);
  const std::vector<std::string> paths = write_photo_files(folder, a.files, threads);
  int64_t bytes = 0;
  for (const std::string& path : paths) bytes += static_cast<int64_t>(std::filesystem::file_size(path));
  fmt::print(stderr,
             "{} files of {} x {}, {:.1f} kB each, to {} x {} on {} threads; data.cache off but for the last row\n",
             a.files, kPhotoWidth, kPhotoHeight, 1e-3 * static_cast<double>(bytes) / static_cast<double>(a.files),
             kSize, kSize, threads);
  std::vector<Mode> modes = modes_of(paths, folder, threads);
  for (const Mode& mode : modes) mode.run(0);  // files and code into memory
  for (int64_t round = 0; round < a.rounds; ++round) {
    for (Mode& mode : modes) {
      mode.rounds.push_back(mode.run(round));
      if (a.json) print_line(mode, static_cast<size_t>(round), threads);
    }
  }
  print_summary(modes, a.json);
}

}  // namespace
}  // namespace siamese

int main(int count, char** words) {
  try {
    siamese::bench(siamese::parse(count, words));
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}
