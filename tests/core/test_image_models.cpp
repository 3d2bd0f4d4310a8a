// DeiT and DiT under every scheme: gradients against finite differences, and what the models promise beside them.
#include "image_models.h"
#include "nn/patches.h"
#include "nn/tensor_io.h"
#include "train/models.h"

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

/// The cubic convolution with a = -0.75: for |x| ≤ 1 (a+2)|x|³ - (a+3)x² + 1, up to 2 a|x|³ - 5a·x² + 8a|x| - 4a.
double cubic(double x) {
  constexpr double a = -0.75;
  x = std::abs(x);
  return x <= 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0.0;
}

/// Value (row, column) of a grid [from, from] resized to side²: the centres of the pixels (i + 1/2)/side are kept, the
/// border is repeated.
double resized_value(const at::Tensor& grid, int64_t side, int64_t row, int64_t column) {
  const int64_t from = grid.size(0);
  auto place = [&](int64_t i) {
    return (static_cast<double>(i) + 0.5) * static_cast<double>(from) / static_cast<double>(side) - 0.5;
  };
  const double y = place(row), x = place(column);
  double sum = 0;
  for (int64_t i = static_cast<int64_t>(std::floor(y)) - 1; i < std::floor(y) + 3; ++i)
    for (int64_t j = static_cast<int64_t>(std::floor(x)) - 1; j < std::floor(x) + 3; ++j)
      sum += cubic(y - static_cast<double>(i)) * cubic(x - static_cast<double>(j)) *
             grid[std::clamp<int64_t>(i, 0, from - 1)][std::clamp<int64_t>(j, 0, from - 1)].item<double>();
  return sum;
}

/// `got` [1, prefix + side², d] against `p` [1, prefix + from², d], every value.
void expect_resized(const at::Tensor& got, const at::Tensor& p, int64_t prefix, int64_t from, int64_t side) {
  ASSERT_EQ(got.sizes(), at::IntArrayRef({1, prefix + side * side, p.size(2)}));
  EXPECT_TRUE(at::equal(got.slice(1, 0, prefix), p.slice(1, 0, prefix)));
  for (int64_t k = 0; k < p.size(2); ++k) {
    const at::Tensor grid = p[0].slice(0, prefix).select(1, k).view({from, from});
    for (int64_t i = 0; i < side * side; ++i)
      EXPECT_NEAR(got[0][prefix + i][k].item<double>(), resized_value(grid, side, i / side, i % side), 2e-6) << i;
  }
}

TEST(ImageModels, PositionsAreResizedBicubically) {
  EXPECT_DOUBLE_EQ(cubic(0.5), 0.59375);  // (a+2)/8 - (a+3)/4 + 1
  EXPECT_DOUBLE_EQ(cubic(1.5), -0.09375);
  const at::Tensor p = random_normal({1, 2 + 16, 2}, 3);
  for (const int64_t side : {3, 7}) expect_resized(resize_positions(p, 2, side), p, 2, 4, side);
}

/// A classifier of 8² pixels loaded into one of 20²: 2² positions become 5².
TEST(ImageModels, LoadedPositionsAreResized) {
  const TempFolder folder;
  const std::string file = folder.file("model.safetensors");
  for (const bool distilled : {false, true}) {
    ModelConfig c = image_config(scheme_config("siamese"), "deit");
    c.distilled = distilled;
    const auto small = random_image_model<DeiT>(c);
    save_tensors(file, named(small->params()));
    c.image_size = 20;
    const auto large = random_image_model<DeiT>(c);
    load_weights(SafetensorsFile(file), large->params());
    expect_resized(large->params().at("pos_embed").value, small->params().at("pos_embed").value, distilled ? 2 : 1, 2,
                   5);
    EXPECT_TRUE(at::equal(large->params().at("head.weight").value, small->params().at("head.weight").value));
    // The other kind is refused by the name of the key, not by the number of its positions.
    c.distilled = !distilled;
    const auto other = random_image_model<DeiT>(c);
    const std::string message = error_of([&] { load_weights(SafetensorsFile(file), other->params()); });
    EXPECT_EQ(message, fmt::format("{}: its model.distilled is {}, that of this model {}; both must be the same", file,
                                   distilled, !distilled));
  }
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
