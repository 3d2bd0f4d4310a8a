// The diffusion model as a training task.
#pragma once

#include "models/diffusion.h"
#include "models/dit.h"
#include "train/image_task.h"

namespace siamese {

class DitTask final : public ImageTask {
 public:
  DitTask(Recipe& recipe, at::Device device);

  Params& params() override { return model_->params(); }
  const Params& params() const override { return model_->params(); }
  /// The mean square (and the bound) on validation pictures, whose steps and noise are the same every time.
  EvalMetrics evaluate() const override;
  /// A grid of samples, a row a class: samples-00000200.png in the run folder.
  void illustrate(const std::string& folder, int64_t step) const override;

 protected:
  void draw() override;
  /// Reports the mean square alone: the bound's term at the last step, large and rare, would hide everything else.
  PartLoss loss(int64_t index, const Forward& forward) const override;

 private:
  std::unique_ptr<DiT> model_;
  Diffusion diffusion_;
  at::Tensor steps_, noise_, known_;  // of the current batch: steps, noise, labels after some were dropped
};

}  // namespace siamese
