// A set whose pictures can be told from their values, and loaders over it.
#pragma once

#include <atomic>
#include <chrono>
#include <cmath>
#include <memory>
#include <set>
#include <thread>

#include "data_files.h"
#include "images/image_loader.h"

namespace siamese {

/// Picture i has the value i everywhere and label i % 4; some cannot be read, some take their time.
class ValueSet final : public ImageSet {
 public:
  explicit ValueSet(int64_t size, std::set<int64_t> bad = {}) : size_(size), bad_(std::move(bad)) {}

  int64_t size() const override { return size_; }
  int64_t label(int64_t index) const override { return index % 4; }
  Image load(int64_t index, int) const override {
    ++loads;
    if (slow) std::this_thread::sleep_for(index % 3 * std::chrono::microseconds(200));
    if (bad_.contains(index)) fail("the picture is torn");
    return Image(4, 4, 3, static_cast<uint8_t>(index));
  }
  std::string name(int64_t index) const override { return fmt::format("picture_{}", index); }
  const std::vector<std::string>& class_names() const override { return names_; }
  std::string describe() const override { return "values"; }
  int64_t decoded_bytes(int) const override { return bytes; }

  bool slow = false;
  int64_t bytes = 0;
  mutable std::atomic<int64_t> loads = 0;

 private:
  int64_t size_;
  std::set<int64_t> bad_;
  std::vector<std::string> names_ = {"a", "b", "c", "d"};
};

struct Loading {
  std::shared_ptr<ValueSet> set = std::make_shared<ValueSet>(23);
  DataConfig data;
  AugmentConfig augment;
  ImageLoaderOptions options{.batch_size = 6, .classes = 4, .first_step = 0, .end_step = 9, .size = 4, .seed = 5};

  Loading() {
    augment.normalize = "half";
    data.workers = 3;
  }
  std::unique_ptr<ImageLoader> start() const { return std::make_unique<ImageLoader>(set, data, augment, options); }
  std::vector<ImageBatch> all() const {
    const auto loader = start();
    std::vector<ImageBatch> batches;
    for (int64_t step = options.first_step; step < options.end_step; ++step) batches.push_back(loader->next());
    return batches;
  }
};

/// The pictures of a batch, told from their values (normalised to -1 … 1).
inline std::vector<int64_t> pictures(const ImageBatch& batch) {
  const size_t values = batch.images.size() / batch.labels.size();
  std::vector<int64_t> indices;
  for (size_t row = 0; row < batch.labels.size(); ++row) {
    indices.push_back(std::lround((batch.images[row * values] + 1) * 127.5));
  }
  return indices;
}

inline std::vector<int64_t> pictures(const std::vector<ImageBatch>& batches) {
  std::vector<int64_t> all;
  for (const ImageBatch& batch : batches) {
    const std::vector<int64_t> some = pictures(batch);
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

inline void expect_equal(const ImageBatch& a, const ImageBatch& b) {
  EXPECT_EQ(a.step, b.step);
  EXPECT_EQ(a.images, b.images);
  EXPECT_EQ(a.targets, b.targets);
  EXPECT_EQ(a.labels, b.labels);
}

inline Loading augmented() {
  Loading run;
  run.augment.crop = "resized";
  run.augment.flip = 0.5;
  run.augment.erasing = 0.5;
  run.augment.mixup = 0.8;
  run.augment.cutmix = 1;
  run.augment.smoothing = 0.1;
  run.augment.repeats = 2;
  run.options.targets = true;
  return run;
}

}  // namespace siamese
