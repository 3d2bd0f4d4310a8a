// The language model as a training task.
#pragma once

#include <memory>
#include <optional>

#include "data/loader.h"
#include "data/source.h"
#include "recipe/recipe.h"
#include "train/batch_copier.h"
#include "train/models.h"
#include "train/router_log.h"
#include "train/task.h"

namespace siamese {

/// Loss, perplexity, next-token accuracy, bits per byte (byte sources) and exact match (sources with problems) of a
/// model on the first `windows` (0: all) validation windows of a source, `batch_size` of them at a time.
EvalMetrics evaluate_lm(const LanguageModel& model, const Source& source, const DataConfig& data,
                        int64_t sequence_length, int64_t batch_size, int64_t windows, int64_t problems);

/// Settles model.vocab_size from the data or checks it against the data.
void settle_vocabulary(Recipe& recipe, Source& source);

class LmTask final : public Task {
 public:
  /// `recipe` is completed by the data's vocabulary.
  LmTask(Recipe& recipe, at::Device device);

  Params& params() override { return model_->params(); }
  const Params& params() const override { return model_->params(); }
  std::string describe() const override;
  int64_t tokens_per_step() const override { return recipe_.train.batch_size * recipe_.train.sequence_length; }
  void start(int64_t step) override;
  void load() override;
  void load_ahead() override;
  at::Tensor accumulate(const std::function<void()>& collect) override;
  void updated(const at::Tensor& found) override;
  at::Tensor found() const override { return routing_; }
  EvalMetrics step_metrics(const std::vector<double>& found) override;
  ExpertLoad take_load() override;
  double waited() const override { return loader_ ? loader_->waited() : 0.0; }
  EvalMetrics evaluate() const override;
  std::string first_bad_value() const override;

 private:
  void take_next();
  /// Ids and forward pass of micro-batch `index`.
  std::pair<at::Tensor, Forward> micro_batch(int64_t index) const;

  Recipe recipe_;
  at::Device device_;
  std::unique_ptr<Source> source_;
  std::unique_ptr<LanguageModel> model_;
  std::unique_ptr<Loader> loader_;
  std::optional<BatchCopier> copier_;  // on a GPU
  Batch batch_;
  std::optional<Batch> next_;  // already on its way to a GPU
  at::Tensor loads_;           // of mixtures: of the last step, [mixtures, experts + 2]
  at::Tensor routing_;         // of mixtures: what the last step's routers did (train/router_log.h)
  std::optional<RouterLog> log_;
};

}  // namespace siamese
