// DeiT and DiT under every scheme: gradients against finite differences, and what the models promise beside them.
#include "image_models.h"
#include "nn/patches.h"

namespace siamese {
namespace {

template <class Model>
std::unique_ptr<Model> random_image_model(const ModelConfig& config, Recompute recompute = Recompute::feed_forward) {
  ModelOptions options;
  options.dtype = options.stream_dtype = at::kDouble;
  options.recompute = recompute;
  auto model = std::make_unique<Model>(config, options);
  randomise(model->params());
  return model;
}

class ImageModels : public testing::TestWithParam<SchemeCase> {};
INSTANTIATE_TEST_SUITE_P(All, ImageModels, testing::ValuesIn(scheme_cases()), scheme_case_name);

TEST_P(ImageModels, DeitGradients) {
  ModelConfig c = image_config(GetParam().config, "deit");
  c.distilled = true;
  const auto model = random_image_model<DeiT>(c);
  expect_gradients([&] { return image_loss(*model); }, leaves_of(model->params()));
}

TEST_P(ImageModels, DitGradients) {
  const auto model = random_image_model<DiT>(image_config(GetParam().config, "dit"));
  expect_gradients([&] { return image_loss(*model); }, leaves_of(model->params()));
}

/// Both paths, and blocks run again in the backward pass, give the same values and gradients.
TEST_P(ImageModels, PathsAgree) {
  auto gradients = [&](bool fused, Recompute recompute) {
    ModelConfig c = image_config(GetParam().config, "dit");
    c.fused = fused;
    const auto model = random_image_model<DiT>(c, recompute);
    const at::Tensor loss = image_loss(*model);
    torch::autograd::backward({loss});
    std::vector<at::Tensor> all{loss.detach()};
    for (const Parameter& p : model->params().all())
      all.push_back(p.value.grad().defined() ? p.value.grad() : at::zeros_like(p.value));
    return all;
  };
  const auto want = gradients(false, Recompute::none);
  for (const auto& got : {gradients(true, Recompute::none), gradients(true, Recompute::block)})
    for (size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(at::allclose(got[i], want[i], 1e-9, 1e-9)) << i;
}

/// At the start adaLN-Zero makes every block the identity and the prediction zero, whatever the scheme.
TEST_P(ImageModels, DitStartsAtZero) {
  ModelOptions options;
  DiT model(image_config(GetParam().config, "dit"), options);
  model.params().initialise(3);
  const at::Tensor out = model.predict(test_pictures(model.config(), model.params()), test_steps(), test_labels(), {});
  EXPECT_EQ(out.abs().max().item<float>(), 0.f);
}

TEST(ImageModels, PatchesGoBothWays) {
  const at::Tensor x = random_normal({2, 3, 8, 8}, 1);
  // A convolution's weight meets the values of a patch in this order.
  const at::Tensor w = random_normal({5, 3, 4, 4}, 2);
  const at::Tensor want = at::conv2d(x, w, {}, 4).flatten(2).transpose(1, 2);
  EXPECT_TRUE(at::allclose(at::matmul(to_patches(x, 4), w.flatten(1).t()), want, 1e-12, 1e-12));
  // (row, column, channel), channel fastest.
  const at::Tensor tokens = to_patches(x, 4).view({2, 4, 3, 4, 4}).permute({0, 1, 3, 4, 2}).reshape({2, 4, 48});
  EXPECT_TRUE(at::equal(from_patches(tokens, 4, 3), x));
}

TEST(ImageModels, PositionsFollowTheResolution) {
  const at::Tensor p = random_normal({1, 2 + 16, 6}, 3);
  EXPECT_TRUE(at::equal(resize_positions(p, 2, 4), p));
  const at::Tensor larger = resize_positions(p, 2, 7);
  ASSERT_EQ(larger.sizes(), at::IntArrayRef({1, 2 + 49, 6}));
  EXPECT_TRUE(at::equal(larger.slice(1, 0, 2), p.slice(1, 0, 2)));
  // Constant positions stay constant.
  const at::Tensor flat = resize_positions(at::full({1, 17, 3}, 2.5, at::kDouble), 1, 9);
  EXPECT_LT((flat - 2.5).abs().max().item<double>(), 1e-5);
  EXPECT_THROW(resize_positions(at::zeros({1, 16, 3}), 1, 9), Error);
}

TEST(ImageModels, SinesOfColumnsThenRows) {
  const at::Tensor p = sine_positions(3, 8);  // 9 positions, frequencies 1 and 1/100
  const double row = 2, column = 1;
  const at::Tensor at21 = p[static_cast<int64_t>(row * 3 + column)];
  const double want[] = {std::sin(column), std::sin(column / 100), std::cos(column), std::cos(column / 100),
                         std::sin(row),    std::sin(row / 100),    std::cos(row),    std::cos(row / 100)};
  for (int64_t i = 0; i < 8; ++i) EXPECT_NEAR(at21[i].item<double>(), want[i], 1e-12) << i;
}

/// DropPath's factors may be drawn before the step: the same ones as inside it.
TEST(ImageModels, DropPathDrawnBefore) {
  ModelConfig c = image_config(scheme_config("siamese"), "deit");
  c.drop_path = 0.5;
  const auto model = random_image_model<DeiT>(c);
  Forward inside;
  inside.training = true, inside.seed = 7, inside.step = 11;
  Forward before = inside;
  std::vector<at::Tensor> scales;
  for (int k = 0; k < 2 * c.n_layers; ++k)
    scales.push_back(path_scale(c, k, inside, kImageBatch, at::TensorOptions().dtype(at::kDouble)));
  before.path_scales = at::stack(scales);
  EXPECT_TRUE(at::equal(image_loss(*model, inside), image_loss(*model, before)));
  EXPECT_FALSE(at::equal(image_loss(*model, inside), image_loss(*model)));
}

TEST(ImageModels, RefuseWithoutClasses) {
  ModelConfig c = image_config(scheme_config("pre"), "deit");
  c.classes = 0;
  EXPECT_THROW(DeiT(c, {}), Error);
  c.family = "dit";
  EXPECT_THROW(DiT(c, {}), Error);
}

}  // namespace
}  // namespace siamese
