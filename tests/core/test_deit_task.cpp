// What a classifier's training adds: learning rates that fall towards the embedding, and a teacher. Both by numbers
// worked out by hand.
#include "train/deit_task.h"

#include <cmath>

#include "small_params.h"
#include "train/checkpoint.h"
#include "train/models.h"

namespace siamese {
namespace {

// Of 3 blocks: embeddings are layer 0, blocks 1 … 3, what follows them 4, and the rate is decay^(4 - layer).
TEST(LayerDecay, FallsTowardsTheEmbedding) {
  auto rate = [](const char* name) { return Optimizer::layer_rate(name, 3, 0.5); };
  for (const char* name : {"patch_embed.weight", "patch_embed.bias", "cls_token", "dist_token", "pos_embed"})
    EXPECT_DOUBLE_EQ(rate(name), 0.0625) << name;
  EXPECT_DOUBLE_EQ(rate("transformer.blocks.0.att_proj.weight"), 0.125);
  EXPECT_DOUBLE_EQ(rate("transformer.blocks.1.ff_out.bias"), 0.25);
  EXPECT_DOUBLE_EQ(rate("transformer.blocks.2.attn_out.weight"), 0.5);
  for (const char* name : {"transformer.ln_f.weight", "head.weight", "head.bias", "head_dist.weight"})
    EXPECT_DOUBLE_EQ(rate(name), 1.0) << name;
  EXPECT_DOUBLE_EQ(Optimizer::layer_rate("cls_token", 12, 0.75), std::pow(0.75, 13));
  EXPECT_EQ(Optimizer::layer_rate("cls_token", 3, 1.0), 1.0);
}

// AdamW's first step moves every value by the learning rate, whatever its gradient, and decays it by lr·weight_decay.
TEST(LayerDecay, ScalesTheStep) {
  const std::pair<const char*, double> rates[] = {{"patch_embed.weight", 0.36},
                                                  {"transformer.blocks.0.w", 0.6},
                                                  {"transformer.blocks.0.v", 0.6},
                                                  {"head.weight", 1.0}};
  Params params(at::kDouble, at::kCPU);
  for (const auto& [name, rate] : rates) params.add(name, {2}, ParamKind::matrix, {InitSpec::constant, 1.0});
  params.initialise(1);
  TrainConfig t = without_clip();
  t.layer_decay = 0.6, t.eps = 1e-14;
  Optimizer optimizer(params, t);
  for (const Parameter& p : params.all()) p.value.mutable_grad() = at::tensor({3.0, -0.1}, at::kDouble);
  optimizer.collect();
  optimizer.update(0.01, 1);
  for (const auto& [name, rate] : rates) {
    const at::Tensor p = params.at(name).value;
    EXPECT_NEAR(p[0].item<double>(), 1 - 0.01 * rate * (0.2 + 1), 1e-12) << name;
    EXPECT_NEAR(p[1].item<double>(), 1 - 0.01 * rate * (0.2 - 1), 1e-12) << name;
  }
}

constexpr int64_t kClasses = 10;

Recipe tiny_deit(const std::vector<std::string>& more) {
  std::vector<std::string> set = {"model.family=deit",
                                  "model.d_model=8",
                                  "model.n_layers=1",
                                  "model.n_heads=2",
                                  "model.image_size=8",
                                  "model.patch_size=4",
                                  "data.shapes=40",
                                  "train.batch_size=8",
                                  "train.steps=1",
                                  "train.micro_batch_size=4",
                                  fmt::format("model.classes={}", kClasses)};
  set.insert(set.end(), more.begin(), more.end());
  return parse_recipe("", "test.yaml", set);
}

/// Logits 0 but for ln(odds) of one class, for every picture.
void always_say(const Params& params, const std::string& head, int64_t label, double odds) {
  const at::NoGradGuard no_grad;
  at::Tensor(params.at(head + ".weight").value).zero_();
  at::Tensor bias = params.at(head + ".bias").value;
  bias.zero_();
  bias[label].fill_(std::log(odds));
}

/// The loss of a student whose logits are known: ln 1 for all classes on the first head, ln 2 for class 0 on the last.
class Distillation : public testing::Test {
 protected:
  /// The teacher sees class 1 five times as likely as each other.
  void SetUp() override {
    const Recipe recipe = tiny_deit({});
    const auto model = make_deit(recipe, at::kCPU);
    model->params().initialise(1);
    always_say(model->params(), "head", 1, 5);
    save_checkpoint(teacher_.path(), {1, 8, {}, to_yaml(recipe)}, {named(model->params()), {}, {}}, {});
  }

  double loss(const std::string& kind, bool second_head, const std::vector<std::string>& more) const {
    std::vector<std::string> set = {"distill.kind=" + kind, "distill.teacher=" + teacher_.path(),
                                    second_head ? "model.distilled=true" : "model.distilled=false"};
    set.insert(set.end(), more.begin(), more.end());
    Recipe recipe = tiny_deit(set);
    DeitTask task(recipe, at::kCPU);
    task.params().initialise(2);
    always_say(task.params(), "head", 0, second_head ? 1 : 2);
    if (second_head) always_say(task.params(), "head_dist", 0, 2);
    task.start(0);
    task.load();
    return task.accumulate([] {}).item<double>();
  }

  const TempFolder teacher_;
  const double own_ = std::log(10.0);  // of a student to whom all ten classes are alike, whatever the label
};

// Against the teacher's first choice, class 1, to which the student gives 1/(2 + 9).
TEST_F(Distillation, HardLossByHand) {
  EXPECT_NEAR(loss("hard", true, {"distill.alpha=0.3"}), 0.7 * own_ + 0.3 * std::log(11.0), 1e-5);
  EXPECT_NEAR(loss("hard", true, {}), 0.5 * own_ + 0.5 * std::log(11.0), 1e-5);
  EXPECT_NEAR(loss("hard", true, {"distill.alpha=0"}), own_, 1e-5);
  // Without a second head the first one follows the teacher.
  EXPECT_NEAR(loss("hard", false, {"distill.alpha=1"}), std::log(11.0), 1e-5);
}

// p = softmax(teacher/T) has √5/(9 + √5) for class 1, q = softmax(student/T) √2/(9 + √2) for class 0, where T = 2:
//   KL(p || q) = ln((9 + √2)/(9 + √5)) + p₁·ln √5 - p₀·ln √2,  loss = T²·KL/classes
TEST_F(Distillation, SoftLossByHand) {
  auto divergence = [](double a, double b) {  // of odds a for class 1 and b for class 0
    return std::log((9 + b) / (9 + a)) + a / (9 + a) * std::log(a) - 1 / (9 + a) * std::log(b);
  };
  const double one = divergence(5, 2) / 10, two = 4 * divergence(std::sqrt(5.0), std::sqrt(2.0)) / 10;
  EXPECT_NEAR(one, 0.0284127, 1e-7);
  EXPECT_NEAR(two, 0.0213374, 1e-7);
  EXPECT_NEAR(loss("soft", true, {"distill.alpha=1"}), one, 1e-6);
  EXPECT_NEAR(loss("soft", true, {"distill.alpha=1", "distill.temperature=2"}), two, 1e-6);
  EXPECT_NEAR(loss("soft", true, {"distill.alpha=0.3", "distill.temperature=2"}), 0.7 * own_ + 0.3 * two, 1e-5);
  EXPECT_NEAR(loss("soft", false, {"distill.alpha=1"}), one, 1e-6);
}

}  // namespace
}  // namespace siamese
