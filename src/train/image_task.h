// Image models as training tasks: what DeiT's and DiT's have in common is the way of pictures and labels into a step.
#pragma once

#include <memory>
#include <optional>

#include "images/image_loader.h"
#include "images/image_set.h"
#include "images/validation_batch.h"
#include "nn/forward.h"
#include "recipe/recipe.h"
#include "train/task.h"
#include "train/tensor_copier.h"

namespace siamese {

/// Settles model.classes from the data or checks it against the data.
void settle_classes(Recipe& recipe, int64_t found);

/// The sets a recipe asks for, latents included.
ImageSets image_sets_of(const Recipe& recipe);

/// Samples first … first + count - 1 as evaluation sees them, without those that cannot be read where they may be left
/// out.
struct EvaluationBatch {
  at::Tensor images, labels;
};
EvaluationBatch evaluation_batch(const ImageSet& set, const Recipe& recipe, int64_t first, int64_t count,
                                 at::Device device);

/// The task of a recipe's family; `recipe` is completed by what the data says.
std::unique_ptr<Task> make_task(Recipe& recipe, at::Device device);

class ImageTask : public Task {
 public:
  std::string describe() const override;
  int64_t tokens_per_step() const override { return recipe_.train.batch_size; }
  std::string unit() const override { return "image"; }
  void start(int64_t step) override;
  void load() override;
  void load_ahead() override;
  at::Tensor accumulate(const std::function<void()>& collect) override;
  std::string first_bad_value() const override;
  double waited() const override { return loader_ ? loader_->times().waited : 0.0; }
  /// Where the loader's time went, and what it and evaluation left out.
  std::string data_notes() const override;
  std::vector<std::string> class_names() const override { return classes_; }

 protected:
  /// `mixed`: targets [B, classes] come along, smoothed and mixed.
  ImageTask(Recipe& recipe, at::Device device, bool mixed);

  int64_t parts() const { return recipe_.train.batch_size / recipe_.train.micro_batch_size; }
  int64_t step() const { return step_; }
  /// Of the current batch: [B, C, size, size], [B], [B, classes].
  const at::Tensor& images() const { return copier_->part(0); }
  const at::Tensor& labels() const { return copier_->part(1); }
  const at::Tensor& targets() const { return copier_->part(2); }
  /// Rows of micro-batch `index`.
  at::Tensor rows(const at::Tensor& all, int64_t index) const {
    return all.narrow(0, index * recipe_.train.micro_batch_size, recipe_.train.micro_batch_size);
  }
  virtual Forward forward(int64_t index) const;
  /// Of micro-batch `index`: what is differentiated, and what is reported, without a gradient.
  struct PartLoss {
    at::Tensor total, reported;
  };
  virtual PartLoss loss(int64_t index, const Forward& forward) const = 0;
  /// The validation pictures that an evaluation looks at.
  std::shared_ptr<const ImageSet> evaluation_set() const {
    return spread_over(sets_.validation, recipe_.eval.batches * recipe_.train.batch_size);
  }
  /// Draws what the coming step needs besides its batch, outside of any captured graph.
  virtual void draw() {}

  Recipe recipe_;
  at::Device device_;
  ImageSets sets_;

 private:
  void take_next();

  const bool mixed_;
  std::vector<std::string> classes_;
  std::shared_ptr<UnreadPictures> unread_ = std::make_shared<UnreadPictures>();
  std::unique_ptr<ImageLoader> loader_;
  std::optional<TensorCopier> copier_;
  int64_t step_ = 0;
  std::optional<int64_t> next_;  // step of the batch that is on its way
};

}  // namespace siamese
