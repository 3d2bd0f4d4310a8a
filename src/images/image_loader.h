// Batches of augmented pictures prepared ahead by worker threads. What a batch holds does not depend on the number of
// workers.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "images/image_set.h"
#include "images/transform.h"

namespace siamese {

struct ImageBatch {
  int64_t step = 0;
  std::vector<float> images;    // [batch, channels, size, size]
  std::vector<float> targets;   // [batch, classes]: smoothed and mixed; empty where labels suffice
  std::vector<int64_t> labels;  // [batch]
};

struct ImageLoaderOptions {
  int64_t batch_size = 0, classes = 0, first_step = 0, end_step = 0;
  int size = 0, channels = 3;
  uint64_t seed = 0;
  bool shuffle = true;
  bool targets = false;  // make ImageBatch::targets (mixup, cutmix, smoothing)
};

/// Seconds spent since the beginning, all workers together, and waiting for them.
struct LoaderTimes {
  double decode = 0, augment = 0, waited = 0;
};

/// Images are permuted by epoch; with `repeats` r each stands r times in a row, augmented differently, also across the
/// border of two batches. A picture that cannot be read ends the run (data.corrupt refuse: `next` throws) or is
/// replaced by the next readable one of the order and counted (skip).
class ImageLoader {
 public:
  ImageLoader(std::shared_ptr<const ImageSet> set, const DataConfig& data, const AugmentConfig& augment,
              const ImageLoaderOptions& options);
  ~ImageLoader();
  ImageLoader(const ImageLoader&) = delete;
  ImageLoader& operator=(const ImageLoader&) = delete;

  ImageBatch next();
  /// Whether `next` has a batch at once: it neither waits nor throws then.
  bool ready();
  /// Takes the memory of a used batch for a later one: large batches cost more to allocate than to copy.
  void recycle(ImageBatch&& batch);
  LoaderTimes times() const;
  /// Different pictures left out of the batches handed out so far, and the names of the first ten.
  int64_t skipped() const;
  std::vector<std::string> skipped_names() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Validation pictures first … first + count - 1 of a set, transformed for evaluation, by all workers (0: one a core).
/// With `skip_corrupt` pictures that cannot be read are left out and the batch is smaller, else the first throws.
ImageBatch validation_batch(const ImageSet& set, const Transform& transform, int64_t first, int64_t count, int size,
                            int channels, int64_t workers, bool skip_corrupt = false);

/// Threads for data.workers: 0 is one a core.
int64_t worker_count(int64_t workers);

}  // namespace siamese
