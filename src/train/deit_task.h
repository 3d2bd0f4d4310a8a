// The image classifier as a training task.
#pragma once

#include "models/deit.h"
#include "train/image_task.h"

namespace siamese {

/// Loss, top-1 and top-5 accuracy on a set. `confusion` [true, found], if given, counts.
EvalMetrics evaluate_deit(const DeiT& model, const ImageSet& set, const Recipe& recipe,
                          at::Tensor* confusion = nullptr);

class DeitTask final : public ImageTask {
 public:
  DeitTask(Recipe& recipe, at::Device device);

  Params& params() override { return model_->params(); }
  const Params& params() const override { return model_->params(); }
  EvalMetrics evaluate() const override;

 protected:
  void draw() override;
  Forward forward(int64_t index) const override;
  PartLoss loss(int64_t index, const Forward& forward) const override;

 private:
  /// What the teacher adds for the micro-batch: (1 - alpha)·own + alpha·teacher's, its logits at hand.
  at::Tensor taught(const at::Tensor& own, const DeitLogits& logits, const at::Tensor& images) const;

  std::unique_ptr<DeiT> model_, teacher_;
  at::Tensor path_scales_;  // [sub-layers, B], where DropPath is on
};

}  // namespace siamese
