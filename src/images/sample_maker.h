// The content of training batches, image by image, without any threads: safe to call from all of them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "images/image_loader.h"
#include "images/sample_order.h"

namespace siamese {

class SampleMaker {
 public:
  SampleMaker(std::shared_ptr<const ImageSet> set, const DataConfig& data, const AugmentConfig& augment,
              const ImageLoaderOptions& options);

  const ImageSet& set() const { return *set_; }
  /// Different images in a batch, at the most.
  int64_t images() const {
    const int64_t size = options_.batch_size, r = augment_.repeats;
    return size % r == 0 ? size / r : (size + r - 2) / r + 1;
  }

  /// Makes room for a batch; its step is set.
  void prepare(ImageBatch& batch) const;
  /// Fills all rows of image `image` of the batch. `skipped` gets the indices that could not be read. Gives up quietly
  /// when `stop` is set.
  void make(ImageBatch& batch, int64_t image, std::vector<int64_t>& skipped, const std::atomic<bool>& stop);
  /// Mixes a batch whose images are all there, if targets are asked for.
  void mix(ImageBatch& batch);

  double decode_seconds() const { return static_cast<double>(decode_.load()) * 1e-9; }
  double augment_seconds() const { return static_cast<double>(augmenting_.load()) * 1e-9; }

 private:
  /// Index and pixels; an index of -1 after a stop.
  std::pair<int64_t, Image> find(int64_t place, const Needed& needed, std::vector<int64_t>& skipped,
                                 const std::atomic<bool>& stop);
  RandomKey key_of(int64_t row) const { return {options_.seed, static_cast<uint64_t>(row), kImageAugment}; }

  AugmentConfig augment_;
  ImageLoaderOptions options_;
  bool skip_;
  Transform transform_;
  int least_side_;
  std::shared_ptr<const ImageSet> set_;
  SampleOrder order_;
  std::atomic<int64_t> decode_ = 0, augmenting_ = 0;  // nanoseconds
};

/// The message of an image that cannot be read, with its name.
std::string unreadable(const ImageSet& set, int64_t index, const std::string& reason);

}  // namespace siamese
