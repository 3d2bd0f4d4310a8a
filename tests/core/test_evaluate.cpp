// Evaluation against sums made by hand and against real generation.
#include <cmath>
#include <map>

#include "models/generate.h"
#include "tiny.h"
#include "train/lm_task.h"

namespace siamese {
namespace {

double value(const EvalMetrics& m, const std::string& name) {
  for (const auto& [key, x] : m)
    if (key == name) return x;
  ADD_FAILURE() << "no " << name;
  return NAN;
}

bool has(const EvalMetrics& m, const std::string& name) {
  return std::any_of(m.begin(), m.end(), [&](const auto& entry) { return entry.first == name; });
}

struct ByHand {
  double loss = 0, accuracy = 0;
};

/// Means over every target of the first `windows` windows, one window at a time and without padding.
ByHand by_hand(const LanguageModel& model, const Source& source, int64_t length, int64_t windows, bool masked) {
  const at::NoGradGuard no_grad;
  ByHand mean;
  double count = 0;
  for (int64_t i = 0; i < windows; ++i) {
    std::vector<int64_t> window(static_cast<size_t>(length) + 1);
    window.resize(static_cast<size_t>(source.validation(i, window)));
    const at::Tensor ids = at::tensor(window, at::kLong).unsqueeze(0), in = ids.slice(1, 0, ids.size(1) - 1);
    Forward forward;
    if (masked) forward.documents = document_numbers(in, source.eos());
    const at::Tensor p = at::log_softmax(model.logits(model.hidden(in, forward)).to(at::kDouble), -1);
    const at::Tensor targets = ids.slice(1, 1);
    mean.loss -= p.gather(-1, targets.unsqueeze(-1)).sum().item<double>();
    mean.accuracy += (p.argmax(-1) == targets).sum().item<double>();
    count += static_cast<double>(targets.size(1));
  }
  return {mean.loss / count, mean.accuracy / count};
}

/// 230 ids below 11, so that windows of 16 leave a rest of 5 targets; 3 ends a document.
DataConfig token_data(const TempFolder& folder) {
  std::string bytes;
  const at::Tensor ids = random_ids(1, 230, 11, 12);
  for (int64_t i = 0; i < 230; ++i) {
    bytes.push_back(static_cast<char>(ids[0][i].item<int64_t>()));
    bytes.push_back('\0');
  }
  spill(folder.file("ids.bin"), bytes);
  spill(folder.file("other.bin"), bytes.substr(0, 120));
  DataConfig data;
  data.source = "tokens";
  data.tokens = {folder.file("other.bin")};
  data.validation_tokens = {folder.file("ids.bin")};
  data.eos_id = 3;
  return data;
}

TEST(Evaluate, MeanOverAllTargetsWithAShortTail) {
  const TempFolder folder;
  DataConfig data = token_data(folder);
  const auto source = make_source(data, 16, 1);
  const auto model = tiny_model(tiny_config(), at::kFloat);
  const int64_t windows = source->validation_windows();
  ASSERT_EQ(windows, 15);
  for (const bool masked : {false, true}) {
    data.document_masking = masked;
    const auto [want, accuracy] = by_hand(*model, *source, 16, windows, masked);
    for (const int64_t batch : {1, 4, 15, 64}) {
      const EvalMetrics m = evaluate_lm(*model, *source, data, 16, batch, 0, 10);
      EXPECT_EQ(m.front().first, "validation_loss");
      EXPECT_NEAR(m.front().second, want, 2e-6) << "batch " << batch;
      EXPECT_NEAR(value(m, "perplexity"), std::exp(want), 1e-4);
      EXPECT_FALSE(has(m, "bits_per_byte"));  // ids are not bytes
      EXPECT_NEAR(value(m, "accuracy"), accuracy, 1e-12);
      EXPECT_FALSE(has(m, "exact_match"));  // no problems in token files
    }
  }
}

TEST(Evaluate, BatchesLimitTheWindows) {
  const TempFolder folder;
  const DataConfig data = token_data(folder);
  const auto source = make_source(data, 16, 1);
  const auto model = tiny_model(tiny_config(), at::kFloat);
  EXPECT_NEAR(evaluate_lm(*model, *source, data, 16, 4, 8, 0).front().second,
              by_hand(*model, *source, 16, 8, false).loss, 2e-6);
  EXPECT_NEAR(evaluate_lm(*model, *source, data, 16, 4, 400, 0).front().second,
              by_hand(*model, *source, 16, 15, false).loss, 2e-6);
}

ModelConfig byte_config() {
  ModelConfig c = tiny_config();
  c.d_model = 48;
  c.n_heads = c.n_kv_heads = 4;
  c.mlp_hidden_size = 128;
  c.vocab_size = 256;
  return c;
}

TEST(Evaluate, TextHasBitsPerByte) {
  const TempFolder folder;
  std::string text;
  for (int i = 0; i < 60; ++i) text += fmt::format("line {} says öäü\n", i);
  spill(folder.file("text.txt"), text);
  const auto source = make_validation_source(folder.file("text.txt"), "text", 32);
  const auto model = tiny_model(byte_config(), at::kFloat);
  const EvalMetrics m = evaluate_lm(*model, *source, {}, 32, 8, 0, 10);
  EXPECT_NEAR(m.front().second, by_hand(*model, *source, 32, source->validation_windows(), false).loss, 2e-6);
  EXPECT_NEAR(value(m, "bits_per_byte"), m.front().second / std::log(2.0), 1e-9);
}

// Dropout belongs to training; no gradients are kept.
TEST(Evaluate, IsNotTraining) {
  const TempFolder folder;
  const DataConfig data = token_data(folder);
  const auto source = make_source(data, 16, 1);
  const auto plain = tiny_model(tiny_config(), at::kFloat), dropping = tiny_model(dropout_config(), at::kFloat);
  EXPECT_EQ(evaluate_lm(*plain, *source, data, 16, 4, 0, 0).front().second,
            evaluate_lm(*dropping, *source, data, 16, 4, 0, 0).front().second);
}

/// Writes greedily as a user would and compares with the answer.
bool answers(const LanguageModel& model, const Problem& problem) {
  SamplingOptions o;
  o.temperature = 0;
  o.tokens = static_cast<int64_t>(problem.answer.size());
  return decode_bytes(generate(model, encode_bytes(problem.prompt), o)) == problem.answer;
}

/// Learns the first half of the problems by heart: a tiny model that can do sums would take minutes.
void learn(LanguageModel& model, const std::vector<Problem>& problems) {
  std::map<size_t, std::vector<int64_t>> by_length;  // rows of one length go together
  for (size_t i = 0; i < problems.size() / 2; ++i) {
    const std::vector<int64_t> ids = encode_bytes(problems[i].prompt + problems[i].answer);
    auto& all = by_length[ids.size()];
    all.insert(all.end(), ids.begin(), ids.end());
  }
  Optimizer optimizer(model.params(), TrainConfig{});
  for (int64_t step = 1; step <= 60; ++step) {
    for (const auto& [length, ids] : by_length) {
      const at::Tensor rows = at::tensor(ids, at::kLong).view({-1, static_cast<int64_t>(length)});
      torch::autograd::backward({model.loss(rows, {}).total});
      optimizer.collect();
    }
    optimizer.clip();
    optimizer.update(1e-2, step);
  }
}

TEST(Evaluate, ExactMatchIsRealGeneration) {
  DataConfig data;
  data.source = "arithmetic";
  const auto source = make_source(data, 32, 1);
  const std::vector<Problem> problems = source->problems(60);
  ASSERT_EQ(problems.size(), 60u);
  const auto model = std::make_unique<LanguageModel>(byte_config(), ModelOptions{});
  model->params().initialise(1);
  learn(*model, problems);
  for (const int64_t count : {7, 60}) {
    double right = 0;
    for (int64_t i = 0; i < count; ++i) right += answers(*model, problems[static_cast<size_t>(i)]);
    const double share = right / static_cast<double>(count);
    for (const int64_t batch : {1, 50}) {
      const EvalMetrics m = evaluate_lm(*model, *source, data, 32, batch, batch, count);
      EXPECT_DOUBLE_EQ(value(m, "exact_match"), share) << count;
    }
    // Neither none nor all: otherwise this compares nothing.
    EXPECT_GT(share, 0.2) << count;
    EXPECT_LT(share, count == 60 ? 0.9 : 1.01) << count;
  }
  EXPECT_FALSE(has(evaluate_lm(*model, *source, data, 32, 4, 4, 0), "exact_match"));
}

}  // namespace
}  // namespace siamese
