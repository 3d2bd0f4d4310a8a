// The ends of documents that attention of variable length gets, against the numbers that the mask is made of.
#include "tiny.h"
#include "train/documents.h"

namespace siamese {
namespace {

/// The ends by definition: where a token's document, or its row, is not the next token's.
std::vector<int32_t> ends_from_numbers(const at::Tensor& ids, int64_t eos) {
  const at::Tensor numbers = document_numbers(ids, eos);
  std::vector<int32_t> ends{0};
  for (int64_t r = 0; r < ids.size(0); ++r)
    for (int64_t i = 0; i < ids.size(1); ++i) {
      const bool last = i + 1 == ids.size(1);
      if (last || numbers[r][i].item<int64_t>() != numbers[r][i + 1].item<int64_t>())
        ends.push_back(static_cast<int32_t>(r * ids.size(1) + i + 1));
    }
  return ends;
}

TEST(Documents, EndsAreThoseOfTheNumbers) {
  for (const int64_t vocab : {2, 5, 40}) {
    const at::Tensor all = random_ids(7, 34, vocab, vocab);
    // As training hands them over: some rows of a batch, without their last id.
    for (const at::Tensor& ids : {all, all.narrow(0, 2, 3).slice(1, 0, 33), all.slice(1, 0, 1)}) {
      const DocumentEnds found = document_ends(ids, 1);
      EXPECT_EQ(found.ends, ends_from_numbers(ids, 1)) << "vocabulary " << vocab;
      int64_t longest = 0;
      for (size_t i = 1; i < found.ends.size(); ++i)
        longest = std::max<int64_t>(longest, found.ends[i] - found.ends[i - 1]);
      EXPECT_EQ(found.longest, longest);
      EXPECT_EQ(found.ends.back(), ids.numel());
    }
  }
}

TEST(Documents, AnEndBelongsToItsDocumentAndARowEndsOne) {
  const at::Tensor ids = at::tensor({5, 0, 5, 5, 0, 0, 5, 0}, at::kLong).view({2, 4});
  const DocumentEnds found = document_ends(ids, 0);
  EXPECT_EQ(found.ends, (std::vector<int32_t>{0, 2, 4, 5, 6, 8}));
  EXPECT_EQ(found.longest, 2);
  EXPECT_EQ(document_ends(ids, 9).ends, (std::vector<int32_t>{0, 4, 8}));
}

TEST(Documents, TheCpuKeepsTheNumbersAndTheEnds) {
  Forward forward;
  const at::Tensor ids = random_ids(2, 9, 4);
  mask_documents(forward, ids, 1, at::kCPU);
  EXPECT_TRUE(at::equal(forward.documents, document_numbers(ids, 1)));
  EXPECT_FALSE(forward.document_ends.defined());
  EXPECT_EQ(*forward.host_document_ends, document_ends(ids, 1).ends);
}

// By ends attention goes from document to document, by numbers alone under a mask: the same losses and gradients.
TEST(Documents, OneAfterTheOtherIsWhatTheMaskGives) {
  for (const char* scheme : {"pre", "siamese_hybrid"})
    for (const int64_t kv_heads : {2, 1}) {
      ModelConfig config = tiny_config(scheme);
      config.n_kv_heads = kv_heads;
      ModelOptions options;
      options.dtype = options.stream_dtype = at::kDouble;
      LanguageModel model(config, options);
      fill_randomly(model.params());
      const at::Tensor ids = random_ids(3, 24, 4), in = ids.slice(1, 0, 23);
      Forward by_ends, by_numbers;
      mask_documents(by_ends, in, 1, at::kCPU);
      by_numbers.documents = by_ends.documents;
      ASSERT_GT(by_ends.host_document_ends->size(), 6U);
      const at::Tensor a = model.loss(ids, by_ends).total, b = model.loss(ids, by_numbers).total;
      EXPECT_NEAR(a.item<double>(), b.item<double>(), 1e-12);
      EXPECT_GT(std::abs(a.item<double>() - model.loss(ids, {}).total.item<double>()), 1e-4);
      const auto ga = gradients(a, model.params()), gb = gradients(b, model.params());
      for (size_t i = 0; i < ga.size(); ++i) EXPECT_TRUE(at::allclose(ga[i], gb[i], 1e-9, 1e-12)) << scheme << ' ' << i;
    }
}

}  // namespace
}  // namespace siamese
