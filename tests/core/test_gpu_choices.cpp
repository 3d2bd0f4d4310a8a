// What a process does beside and before its steps on a GPU: batches copied ahead, the libraries and algorithms chosen.
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstring>

#include "gpu.h"
#include "head_cases.h"
#include "ops/attention_choice.h"
#include "ops/gemm.h"
#include "ops/gpu_tools.h"
#include "ops/head_scores.h"
#include "tiny.h"
#include "train/batch_copier.h"

namespace siamese {
namespace {

class GpuChoices : public Gpu {
 protected:
  void TearDown() override { set_deterministic(false); }
  /// Keeps the current stream busy for a good while; nothing waits for it.
  void keep_busy(int products) const {
    if (!busy_.defined()) busy_ = at::full({4096, 4096}, 1e-3, at::TensorOptions().device(gpu_).dtype(at::kBFloat16));
    for (int i = 0; i < products; ++i) busy_ = at::mm(busy_, busy_);
  }
  mutable at::Tensor busy_;
};

/// What the steps see is what was sent, though they run long after the host has gone on to later batches.
TEST_F(GpuChoices, BatchesArriveWholeUnderABusyGpu) {
  const BatchShape s{8, 1025, 4, true, 3};
  BatchCopier copier(*gpu_tools(), gpu_, s);
  std::vector<at::Tensor> seen, sent;
  const auto send = [&](int64_t number) {
    sent.push_back(random_ids(s.rows, s.width, 50, number));
    copier.send({sent.back().const_data_ptr<int64_t>(), static_cast<size_t>(sent.back().numel())});
  };
  send(0);
  for (int64_t step = 0; step < 40; ++step) {
    copier.place();
    keep_busy(step % 3 == 0 ? 30 : 1);
    seen.push_back(at::cat({copier.ids(0), copier.ids(1)}));  // a copy, in the order of the computing stream
    send(step + 1);
  }
  for (size_t i = 0; i < seen.size(); ++i) EXPECT_TRUE(at::equal(seen[i].cpu(), sent[i])) << "batch " << i;
}

TEST_F(GpuChoices, CopiesRunBesideTheComputation) {
  const auto lane = gpu_tools()->make_copy_lane(1 << 20);
  std::memset(lane->host(), 7, 1 << 20);
  keep_busy(3);  // cuBLAS is loaded
  gpu_tools()->synchronize();
  keep_busy(400);
  c10::Event computed(c10::kCUDA);
  computed.record(c10::impl::VirtualGuardImpl(c10::kCUDA).getStream(gpu_));
  lane->send();
  lane->host();  // waits until the copy has run
  EXPECT_FALSE(computed.query());
  const at::Tensor to = at::zeros({1 << 20}, at::TensorOptions().device(gpu_).dtype(at::kByte));
  lane->place(to.mutable_data_ptr());
  EXPECT_TRUE(to.eq(7).all().item<bool>());
}

TEST_F(GpuChoices, ProductsAreListedAndTakenAgain) {
  set_deterministic(false);
  const at::Tensor a = random_normal({264, 72}, 1, at::kBFloat16).to(gpu_),
                   b = random_normal({40, 72}, 2, at::kBFloat16).to(gpu_);
  const at::Tensor before = gemm(a, b, false, true);
  const std::string list = gpu_tools()->products();
  EXPECT_NE(list.find("264x40x72"), std::string::npos) << list;
  gpu_tools()->use_products(list);
  EXPECT_EQ(gpu_tools()->products(), list);
  EXPECT_TRUE(at::equal(gemm(a, b, false, true), before));
  gpu_tools()->use_products("products of another GPU\n264x40x72 00\n");
  EXPECT_TRUE(at::equal(gemm(a, b, false, true), before));
  gpu_tools()->use_products("");
}

TEST_F(GpuChoices, AttentionIsChosenForEachShape) {
  set_deterministic(false);
  for (const AttentionShape& shape :
       {AttentionShape{16, 16, 64}, AttentionShape{8, 2, 128}, AttentionShape{4, 4, 32}}) {
    const std::string backend = attention_backend(shape, gpu_);
    EXPECT_TRUE(backend.starts_with("cudnn") || backend.starts_with("flash (") || backend.starts_with("own ("))
        << backend;
    EXPECT_EQ(&attention_choice(shape, gpu_), &attention_choice(shape, gpu_));  // decided once
    std::printf("attention of %ld heads (%ld kv) of %ld: %s\n", static_cast<long>(shape.heads),
                static_cast<long>(shape.kv_heads), static_cast<long>(shape.head_dim), backend.c_str());
  }
  set_deterministic(true);
  const std::string fixed = attention_backend({16, 16, 64}, gpu_);
  EXPECT_TRUE(fixed.starts_with("own (deterministic") || fixed.starts_with("flash (deterministic")) << fixed;
  EXPECT_EQ(attention_backend({4, 4, 32}, gpu_), "flash (deterministic algorithms are asked for)");
}

TEST_F(GpuChoices, FlashIsNearPlainAttentionOnTheExamples) {
  for (const int64_t length : {128, 1024}) {
    const AttentionExample e = attention_example({8, 2, 64}, 1, length, gpu_);
    const Attended a = flash_forward(e.heads, {}, 0);
    EXPECT_LT(attention_error({a.out, flash_backward(e.g, e.heads, a, {}, 0)}, e.wanted), 0.02) << length;
  }
}

TEST_F(GpuChoices, HeadScoresAreTheCpus) {
  for (const HeadCase& c : head_cases())
    for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16})
      for (const int64_t chunk : {int64_t{3}, int64_t{0}}) {
        const HeadInputs cpu = make_inputs(c, type, at::kCPU, chunk), gpu = make_inputs(c, type, gpu_, chunk);
        const HeadScores want = head_scores(cpu.hidden, cpu.weight, cpu.targets, cpu.options),
                         got = head_scores(gpu.hidden, gpu.weight, gpu.targets, gpu.options);
        const double w = want.loss.item<double>();
        EXPECT_NEAR(got.loss.item<double>(), w, (type == at::kBFloat16 ? 1e-2 : 1e-5) * (1 + w)) << c.name;
        // Two logits that bf16 rounds to the same number may change places.
        const int64_t hits = want.right.item<int64_t>(), slack = type == at::kBFloat16 ? 1 + c.rows / 50 : 0;
        EXPECT_LE(std::abs(got.right.item<int64_t>() - hits), slack) << c.name;
      }
}

}  // namespace
}  // namespace siamese
