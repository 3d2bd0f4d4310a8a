// Batches on their way to a device: what comes out is what went in, whenever the copies run.
#include "fake_gpu.h"
#include "tiny.h"
#include "train/batch_copier.h"
#include "train/documents.h"

namespace siamese {
namespace {

constexpr int64_t kEos = 3;

std::vector<int64_t> batch_ids(int64_t number, const BatchShape& s) {
  const at::Tensor ids = random_ids(s.rows, s.width, 11, number);
  return {ids.const_data_ptr<int64_t>(), ids.const_data_ptr<int64_t>() + ids.numel()};
}

at::Tensor part_of(const std::vector<int64_t>& ids, const BatchShape& s, int64_t part) {
  return at::tensor(ids, at::kLong).view({s.rows, s.width}).narrow(0, part * s.part_rows, s.part_rows);
}

void expect_current(const BatchCopier& copier, const std::vector<int64_t>& want, const BatchShape& s) {
  for (int64_t part = 0; part < s.rows / s.part_rows; ++part) {
    const at::Tensor ids = part_of(want, s, part);
    EXPECT_TRUE(at::equal(copier.ids(part), ids)) << "part " << part;
    if (!s.masked) continue;
    Forward got, by_numbers;
    copier.mask(got, part);
    const at::Tensor in = ids.slice(1, 0, s.width - 1);
    mask_documents(by_numbers, in, kEos, at::kCPU);
    EXPECT_TRUE(at::equal(got.documents, by_numbers.documents)) << "part " << part;
    const DocumentEnds ends = document_ends(in, kEos);
    EXPECT_TRUE(at::equal(got.document_ends, at::tensor(ends.ends, at::kInt))) << "part " << part;
    EXPECT_EQ(got.longest_document, ends.longest);
  }
}

TEST(BatchCopier, TheNextBatchTravelsWhileTheCurrentOneIsUsed) {
  for (const BatchShape& s : {BatchShape{6, 9, 6, false, -1}, BatchShape{6, 9, 2, false, -1},
                              BatchShape{6, 9, 6, true, kEos}, BatchShape{6, 10, 2, true, kEos}}) {
    FakeTools tools;
    BatchCopier copier(tools, at::kCPU, s);
    EXPECT_EQ(tools.lanes, 2);
    std::vector<int64_t> current = batch_ids(0, s);
    copier.send(current);
    copier.place();
    const void* const address = copier.ids(0).const_data_ptr();
    for (int64_t step = 0; step < 7; ++step) {
      std::vector<int64_t> next = batch_ids(step + 1, s);
      const std::vector<int64_t> kept = next;
      copier.send(next);
      std::fill(next.begin(), next.end(), -1);  // the caller's memory is its own again
      expect_current(copier, current, s);
      copier.place();
      current = kept;
      expect_current(copier, current, s);
      EXPECT_EQ(copier.ids(0).const_data_ptr(), address);  // a CUDA graph reads there
    }
  }
}

// A run that goes back to a bad step leaves a batch behind that was sent and never used.
TEST(BatchCopier, ABatchMayBeSentInVain) {
  const BatchShape s{4, 8, 2, true, kEos};
  FakeTools tools;
  BatchCopier copier(tools, at::kCPU, s);
  for (int64_t i = 0; i < 5; ++i) copier.send(batch_ids(i, s));
  copier.place();
  expect_current(copier, batch_ids(4, s), s);
}

TEST(BatchCopier, RefusesABatchOfAnotherSize) {
  FakeTools tools;
  BatchCopier copier(tools, at::kCPU, {4, 8, 2, false, -1});
  const std::vector<int64_t> ids(31);
  EXPECT_THROW(copier.send(ids), c10::Error);
}

}  // namespace
}  // namespace siamese
