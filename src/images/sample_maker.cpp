#include "images/sample_maker.h"

#include <algorithm>
#include <span>
#include <utility>

#include "util/clock.h"
#include "util/error.h"
#include "util/text.h"

namespace siamese {
namespace {

const ImageSet& checked(const std::shared_ptr<const ImageSet>& set, const AugmentConfig& augment,
                        const ImageLoaderOptions& options) {
  if (set == nullptr || set->size() < 1) fail("data: there is no image to train on");
  if (options.batch_size < 1) fail("train.batch_size: {}, expected at least 1", options.batch_size);
  if (augment.repeats < 1) fail("augment.repeats: {}, expected at least 1", augment.repeats);
  const auto classes = static_cast<int64_t>(set->class_names().size());
  if (classes > options.classes) {
    fail("model.classes: {}, but the data has {} classes ({})", options.classes, classes, set->describe());
  }
  return *set;
}

/// The smallest part that holds both.
Part around(const Part& a, const Part& b) {
  const int x = std::min(a.x, b.x), y = std::min(a.y, b.y);
  return {x, y, std::max(a.x + a.width, b.x + b.width) - x, std::max(a.y + a.height, b.y + b.height) - y};
}

/// Adds the time it lives to a counter of nanoseconds.
class Stopwatch {
 public:
  explicit Stopwatch(std::atomic<int64_t>& total) : total_(total), start_(seconds_now()) {}
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  ~Stopwatch() { total_.fetch_add(static_cast<int64_t>((seconds_now() - start_) * 1e9), std::memory_order_relaxed); }

 private:
  std::atomic<int64_t>& total_;
  double start_;
};

}  // namespace

std::string unreadable(const ImageSet& set, int64_t index, const std::string& reason) {
  const std::string name = printable(set.name(index), SIZE_MAX);
  return reason.find(name) != std::string::npos ? reason : fmt::format("{}: {}", name, reason);
}

SampleMaker::SampleMaker(std::shared_ptr<const ImageSet> set, const DataConfig& data, const AugmentConfig& augment,
                         const ImageLoaderOptions& options)
    : augment_(augment),
      options_(options),
      skip_(data.corrupt == "skip"),
      transform_(augment, options.size, set != nullptr && set->pictures() ? options.channels : 3),
      least_side_(transform_.least_side()),
      order_(checked(set, augment, options).size(), options.seed, options.shuffle && data.shuffle) {
  set_ = with_cache(std::move(set), data.cache, least_side_);
}

void SampleMaker::prepare(ImageBatch& batch) const {
  const auto rows = static_cast<size_t>(options_.batch_size), side = static_cast<size_t>(options_.size);
  batch.images.resize(rows * static_cast<size_t>(options_.channels) * side * side);
  batch.labels.resize(rows);
  batch.targets.resize(options_.targets ? rows * static_cast<size_t>(options_.classes) : 0);
}

std::pair<int64_t, Image> SampleMaker::find(int64_t place, const Needed& needed, std::vector<int64_t>& skipped,
                                            const std::atomic<bool>& stop) {
  const Stopwatch watch(decode_);
  std::string first_reason;
  for (int64_t behind = 0; behind < set_->size(); ++behind) {
    if (stop) return {-1, {}};
    const int64_t index = order_.at(place, behind);
    try {
      if (!set_->pictures()) return {index, {}};
      return {index, set_->load_part(index, least_side_, needed)};
    } catch (const Error& error) {
      const std::string reason = unreadable(*set_, index, error.what());
      if (!skip_) fail("{} (data.corrupt skip leaves such images out)", reason);
      if (first_reason.empty()) first_reason = reason;
      skipped.push_back(index);
    }
  }
  fail("data: none of the {} images can be read; {}", set_->size(), first_reason);
}

void SampleMaker::make(ImageBatch& batch, int64_t image, std::vector<int64_t>& skipped, const std::atomic<bool>& stop) {
  // Rows of the whole run: `repeats` of them an image, the first and the last image of a batch perhaps with fewer.
  const int64_t size = options_.batch_size, r = augment_.repeats, start = batch.step * size, place = start / r + image;
  const int64_t first = std::max(place * r, start), end = std::min((place + 1) * r, start + size);
  if (first >= end) return;
  const Needed needed = [&](int width, int height) {
    Part all = transform_.needed(width, height, key_of(first));
    for (int64_t in_run = first + 1; in_run < end; ++in_run) {
      all = around(all, transform_.needed(width, height, key_of(in_run)));
    }
    return all;
  };
  const auto [index, pixels] = find(place, needed, skipped, stop);
  if (index < 0) return;
  const int64_t label = set_->label(index);
  if (label < 0 || label >= options_.classes) {
    fail("{}: label {}, expected 0 … {}", printable(set_->name(index), SIZE_MAX), label, options_.classes - 1);
  }
  const Stopwatch watch(augmenting_);
  const size_t values = batch.images.size() / static_cast<size_t>(options_.batch_size);
  for (int64_t in_run = first; in_run < end; ++in_run) {
    const int64_t row = in_run - start;
    const std::span<float> out = std::span(batch.images).subspan(static_cast<size_t>(row) * values, values);
    set_->pictures() ? transform_.train(pixels, key_of(in_run), out) : set_->values(index, out);
    batch.labels[static_cast<size_t>(row)] = label;
  }
}

void SampleMaker::mix(ImageBatch& batch) {
  if (!options_.targets) return;
  const Stopwatch watch(augmenting_);
  const Mix mix =
      draw_mix(augment_, options_.size, RandomKey(options_.seed, static_cast<uint64_t>(batch.step), kImageMix));
  apply_mix(mix, batch.images, options_.batch_size, options_.channels, options_.size);
  mixed_targets(mix, batch.labels, augment_.smoothing, options_.classes, batch.targets);
}

}  // namespace siamese
