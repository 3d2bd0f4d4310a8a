// Validation loss, perplexity, bits per byte and exact match.
#include <ATen/ATen.h>

#include <cmath>
#include <numbers>

#include "train/documents.h"
#include "train/lm_task.h"

namespace siamese {
namespace {

constexpr int64_t kIgnore = -100;

struct Sum {
  at::Tensor loss, right;  // numbers on the model's device; right: the most likely next token was the true one
  int64_t tokens = 0;
};

/// Adds the loss of windows first … first+count-1; padding does not count.
void add_windows(const LanguageModel& model, const Source& source, const DataConfig& data, int64_t length,
                 int64_t first, int64_t count, Sum& sum) {
  at::Tensor ids = at::zeros({count, length + 1}, at::kLong);
  at::Tensor targets = at::full({count, length}, kIgnore, at::kLong);
  for (int64_t i = 0; i < count; ++i) {
    int64_t* row = ids.mutable_data_ptr<int64_t>() + i * (length + 1);
    const int64_t real = source.validation(first + i, {row, static_cast<size_t>(length + 1)});
    if (real > 1) targets[i].slice(0, 0, real - 1).copy_(ids[i].slice(0, 1, real));
    sum.tokens += std::max<int64_t>(0, real - 1);
  }
  const at::Device device = model.params().device();
  const at::Tensor in = ids.slice(1, 0, length).contiguous();
  Forward forward;
  if (data.document_masking && source.eos() >= 0) mask_documents(forward, in, source.eos(), device);
  const HeadScores found = model.scores(model.hidden(in.to(device), forward), targets.to(device), kIgnore);
  sum.loss += found.loss;
  sum.right += found.right;
}

/// Share of problems whose whole answer the model would write greedily. One pass with the right answer in place decides
/// it: greedy writing goes wrong exactly where the most likely next id is not the right one.
double exact_match(const LanguageModel& model, const std::vector<Problem>& problems, int64_t batch) {
  int64_t right = 0;
  const auto device = model.params().device();
  for (size_t first = 0; first < problems.size(); first += static_cast<size_t>(batch)) {
    const size_t end = std::min(problems.size(), first + static_cast<size_t>(batch));
    size_t width = 0;
    for (size_t i = first; i < end; ++i) width = std::max(width, problems[i].prompt.size() + problems[i].answer.size());
    at::Tensor ids = at::zeros({static_cast<int64_t>(end - first), static_cast<int64_t>(width)}, at::kLong);
    for (size_t i = first; i < end; ++i) {
      const std::vector<int64_t> row = encode_bytes(problems[i].prompt + problems[i].answer);
      ids[static_cast<int64_t>(i - first)]
          .slice(0, 0, static_cast<int64_t>(row.size()))
          .copy_(at::tensor(row, at::kLong));
    }
    const at::Tensor best = model.logits(model.hidden(ids.to(device), {})).argmax(-1).to(at::kCPU);
    for (size_t i = first; i < end; ++i) {
      const int64_t row = static_cast<int64_t>(i - first), begin = static_cast<int64_t>(problems[i].prompt.size());
      const int64_t stop = begin + static_cast<int64_t>(problems[i].answer.size());
      right += at::equal(best[row].slice(0, begin - 1, stop - 1), ids[row].slice(0, begin, stop));
    }
  }
  return static_cast<double>(right) / static_cast<double>(problems.size());
}

}  // namespace

EvalMetrics evaluate_lm(const LanguageModel& model, const Source& source, const DataConfig& data, int64_t length,
                        int64_t batch_size, int64_t limit, int64_t problems) {
  const at::NoGradGuard no_grad;
  const int64_t windows = limit > 0 ? std::min(source.validation_windows(), limit) : source.validation_windows();
  const auto number = at::TensorOptions().device(model.params().device());
  Sum sum{at::zeros({}, number.dtype(at::kDouble)), at::zeros({}, number.dtype(at::kLong))};
  for (int64_t i = 0; i < windows; i += batch_size)
    add_windows(model, source, data, length, i, std::min(batch_size, windows - i), sum);
  const double tokens = static_cast<double>(sum.tokens), none = std::nan("");
  const double loss = sum.tokens > 0 ? sum.loss.item<double>() / tokens : none;
  EvalMetrics m = {{"validation_loss", loss}, {"perplexity", std::exp(loss)}};
  m.emplace_back("accuracy", sum.tokens > 0 ? sum.right.item<double>() / tokens : none);
  if (source.bytes()) m.emplace_back("bits_per_byte", loss / std::numbers::ln2);
  const std::vector<Problem> asked = source.problems(problems);
  if (!asked.empty()) m.emplace_back("exact_match", exact_match(model, asked, std::max<int64_t>(batch_size, 32)));
  return m;
}

}  // namespace siamese
