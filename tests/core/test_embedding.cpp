// The embedding on the CPU: LibTorch's own numbers, gradients, shapes.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "gradcheck.h"
#include "head_cases.h"

namespace siamese {
namespace {

class EmbeddingIds : public testing::TestWithParam<EmbeddingCase> {
  const OneThread one_thread_;
};
INSTANTIATE_TEST_SUITE_P(All, EmbeddingIds, testing::ValuesIn(embedding_cases()),
                         [](const auto& p) { return std::string(p.param.name); });

TEST_P(EmbeddingIds, FusedIsPlainBitForBit) {
  const EmbeddingCase& c = GetParam();
  const at::Tensor ids = embedding_ids(c);
  for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    const at::Tensor w = random_normal({c.vocab, c.d}, 1, type).set_requires_grad(true);
    const at::Tensor g = random_normal({c.tokens, c.d}, 2, type);
    const at::Tensor a = embed_tokens(w, ids), b = embed_tokens_plain(w, ids);
    EXPECT_TRUE(at::equal(a, b));
    EXPECT_TRUE(at::equal(torch::autograd::grad({a}, {w}, {g})[0], torch::autograd::grad({b}, {w}, {g})[0]));
  }
}

TEST_P(EmbeddingIds, GradientIsTheSumOverTheTokens) {
  const EmbeddingCase& c = GetParam();
  const at::Tensor ids = embedding_ids(c), g = random_normal({c.tokens, c.d}, 2);
  const at::Tensor w = random_normal({c.vocab, c.d}, 1).set_requires_grad(true);
  const at::Tensor want = at::zeros({c.vocab, c.d}, at::kDouble).index_add(0, ids, g);
  EXPECT_LE(head_error(torch::autograd::grad({embed_tokens(w, ids)}, {w}, {g})[0], want), 1e-13);
}

TEST(Embedding, GradientsByFiniteDifferences) {
  const at::Tensor w = random_normal({7, 5}, 1).set_requires_grad(true);
  const at::Tensor ids = at::tensor({0, 3, 3, 6, 1, 3}, at::kLong).view({2, 3});
  expect_gradients([&] { return embed_tokens(w, ids).sin().sum(); }, {{"weight", w}});
  EXPECT_EQ(embed_tokens(w, ids).sizes(), (std::vector<int64_t>{2, 3, 5}));
}

TEST(Embedding, RefusesOtherIds) {
  const at::Tensor w = at::zeros({4, 2});
  EXPECT_THROW(embed_tokens(w, at::zeros({3}, at::kInt)), c10::Error);
  EXPECT_THROW(embed_tokens(w.view({2, 2, 2}), at::zeros({3}, at::kLong)), c10::Error);
  EXPECT_THROW(embed_tokens(w, at::full({1}, 4, at::kLong)), c10::Error);
}

TEST(Embedding, ShapesAreKnownWithoutNumbers) {
  const at::Tensor w = at::empty({9, 4}, at::TensorOptions().device(at::kMeta)).set_requires_grad(true);
  const at::Tensor e = embed_tokens(w, at::empty({2, 3}, at::TensorOptions().device(at::kMeta).dtype(at::kLong)));
  EXPECT_EQ(e.sizes(), (std::vector<int64_t>{2, 3, 4}));
  EXPECT_EQ(torch::autograd::grad({e.sum()}, {w})[0].sizes(), w.sizes());
}

}  // namespace
}  // namespace siamese
