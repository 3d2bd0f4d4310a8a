// The estimate of what a step keeps in memory: against peaks measured on an H200, by policy, and as the user reads it.
#include "fake_gpu.h"
#include "gpu.h"
#include "ops/attention_norms.h"
#include "ops/own_attention.h"
#include "tiny.h"
#include "train/execution.h"
#include "train/lm_task.h"
#include "train/memory.h"
#include "train/models.h"
#include "train/out_of_memory.h"

namespace siamese {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;
const at::Device kGpu(at::kCUDA);  // only its name: nothing is allocated

Recipe lm_400m(const std::string& scheme, const std::vector<std::string>& more = {}) {
  std::vector<std::string> set = {"model.scheme=" + scheme, "train.batch_size=16"};
  set.insert(set.end(), more.begin(), more.end());
  return load_recipe(SIAMESE_SOURCE_DIR "/recipes/lm-400m.yaml", set);
}

int64_t count_of(const Recipe& recipe) { return make_lm(recipe, at::kMeta)->params().count(); }

MemoryPlan plan(const Recipe& recipe, Recompute policy, at::Device device = kGpu) {
  return plan_memory(recipe, count_of(recipe), policy, device);
}

TEST(Memory, PlanIsWithinATenthOfMeasuredPeaks) {
  // siamese bench, H200, bf16, 16 × 2048 tokens, AdamW; norms of q, k and v in passes of their own.
  const bool before = norms_inside();
  set_norms_inside(false);
  for (const auto& [scheme, measured] : {std::pair{"pre", 23.3}, {"siamese", 26.5}, {"siamese_hybrid", 31.0}}) {
    const double planned = plan(lm_400m(scheme), Recompute::feed_forward).total() / kGiB;
    EXPECT_NEAR(planned, measured, 0.1 * measured) << scheme;
  }
  set_norms_inside(before);
  // The same of pictures, 256 at a time.
  for (const auto& [name, scheme, measured] : {std::tuple{"deit-s", "pre", 5.4},
                                               {"deit-s", "siamese", 6.45},
                                               {"dit-b2", "pre", 16.8},
                                               {"dit-b2", "siamese", 19.2}}) {
    const Recipe r = without_data(load_recipe(
        SIAMESE_SOURCE_DIR "/recipes/" + std::string(name) + ".yaml",
        {std::string("model.scheme=") + scheme, "train.batch_size=256", "train.micro_batch_size=256", "train.ema=0"}));
    const double planned = plan_memory(r, count_parameters(r), Recompute::feed_forward, kGpu).total() / kGiB;
    EXPECT_NEAR(planned, measured, 0.1 * measured) << name << " " << scheme;
  }
}

TEST(Memory, SecondStreamCostsOneRowASublayer) {
  const double pre = plan(lm_400m("pre"), Recompute::feed_forward).activations(),
               siamese = plan(lm_400m("siamese"), Recompute::feed_forward).activations();
  EXPECT_EQ(siamese - pre, 48.0 * 1024 * 2 * 16 * 2048);
}

TEST(Memory, EveryPolicySavesMoreThanTheOneBefore) {
  const Recipe recipe = lm_400m("siamese");
  const double tokens = 16 * 2048;
  const MemoryPlan none = plan(recipe, Recompute::none), norms = plan(recipe, Recompute::norms),
                   feed_forward = plan(recipe, Recompute::feed_forward), block = plan(recipe, Recompute::block);
  EXPECT_EQ(none.total() - norms.total(), 48 * tokens * 1024 * 2);
  EXPECT_EQ(norms.total() - feed_forward.total(), 24 * tokens * 2816 * 2);
  EXPECT_LT(block.activations(), 0.35 * feed_forward.activations());
  EXPECT_EQ(block.parameters, none.parameters);
  // Hyper-connections keep what their sub-layers read; on a CPU no kernel rebuilds.
  const Recipe hyper = lm_400m("hc_dynamic");
  EXPECT_EQ(plan(hyper, Recompute::norms).total(), plan(hyper, Recompute::none).total());
  EXPECT_EQ(plan(recipe, Recompute::feed_forward, at::kCPU).total(), plan(recipe, Recompute::none, at::kCPU).total());
}

TEST(Memory, WeightsAndTheirKin) {
  const Recipe whole = lm_400m("pre"), parts = lm_400m("pre", {"train.micro_batch_size=8", "train.ema=0.9"});
  const double n = static_cast<double>(count_of(whole));
  const MemoryPlan a = plan(whole, Recompute::none), b = plan(parts, Recompute::none);
  EXPECT_EQ(a.parameters, 2 * n);
  EXPECT_EQ(a.gradients, 2 * n);
  EXPECT_EQ(a.optimizer, 12 * n);
  EXPECT_EQ(a.average, 0);
  EXPECT_EQ(b.gradients, 6 * n);
  EXPECT_EQ(b.average, 4 * n);
  EXPECT_EQ(2 * b.attention, a.attention);
  EXPECT_EQ(plan(pico_recipe({"model.vocab_size=256"}), Recompute::none, at::kCPU).optimizer,
            8.0 * static_cast<double>(count_of(pico_recipe({"model.vocab_size=256"}))));
}

TEST(Memory, StartUpLines) {
  const Recipe recipe = lm_400m("siamese");
  const std::string gpu = memory_lines(recipe, count_of(recipe), kGpu);
  EXPECT_NE(gpu.find("memory  parameters 686.5 MiB, gradients 686.5 MiB, optimizer 4.0 GiB, activations about "),
            std::string::npos)
      << gpu;
  EXPECT_NE(gpu.find("recompute feed_forward; against none norms saves 3.0 GiB, feed_forward saves 7.1 GiB, block "),
            std::string::npos)
      << gpu;
  const std::string cpu = memory_lines(recipe, count_of(recipe), at::kCPU);
  EXPECT_NE(cpu.find("recompute none; against none block saves "), std::string::npos) << cpu;
  // Said where it is too much for the machine.
  const Recipe huge = lm_400m("siamese", {"model.d_model=65536", "model.n_layers=1000"});
  const std::string lines = memory_lines(huge, count_of(huge), at::kCPU);
  EXPECT_NE(lines.find("\n        that is more than the "), std::string::npos) << lines;
  const Recipe tiny = lm_400m("siamese", {"model.d_model=64", "model.n_layers=1", "model.n_heads=1",
                                          "train.batch_size=1", "train.micro_batch_size=1"});
  EXPECT_EQ(memory_lines(tiny, count_of(tiny), at::kCPU).find("more than"), std::string::npos);
}

TEST(Memory, KnowsWhatAGpuHas) {
  GpuTools* const before = gpu_tools();
  FakeTools tools;
  set_gpu_tools(&tools);
  const Recipe r = lm_400m("siamese");
  const std::string unknown = memory_lines(r, count_of(r), at::kCUDA);
  tools.total = int64_t{8} << 30;
  const std::string small = memory_lines(r, count_of(r), at::kCUDA), advice = memory_advice(r, count_of(r), at::kCUDA);
  tools.total = int64_t{1} << 40;
  const std::string large = memory_lines(r, count_of(r), at::kCUDA);
  set_gpu_tools(before);
  EXPECT_NE(small.find("that is more than the 8.0 GiB of this GPU"), std::string::npos) << small;
  EXPECT_NE(advice.find("this GPU has"), std::string::npos) << advice;
  for (const std::string& text : {unknown, large}) EXPECT_EQ(text.find("more than"), std::string::npos) << text;
}

TEST(Memory, SaysWhichMemoryRanOut) {
  const Recipe r = lm_400m("siamese");
  const auto said = [&](const auto& thrown, at::Device device) {
    try {
      try {
        throw thrown;
      } catch (...) {
        rethrow_with_advice(r, device);
      }
    } catch (const OutOfMemory& e) {
      return e.what() + std::string("\n") + e.advice();
    } catch (const c10::Error&) {
      return std::string("something else");
    }
  };
  const c10::Error graph({"f", "x.cpp", 1}, "CUDA error: out of memory"), other({"f", "x.cpp", 1}, "CUDA error: lost");
  EXPECT_NE(said(graph, at::kCUDA).find("\nwhat uses memory:"), std::string::npos) << said(graph, at::kCUDA);
  EXPECT_EQ(said(other, at::kCUDA), "something else");
  EXPECT_NE(said(std::bad_alloc(), at::kCPU).find("\nwhat uses memory:"), std::string::npos);
  EXPECT_EQ(said(std::bad_alloc(), at::kCUDA), "out of memory (the machine's memory, not the GPU's)\n");
}

TEST(Memory, AdviceNamesWhatUsesItAndWhatToChange) {
  const Recipe recipe = lm_400m("siamese", {"model.stream_dtype=float32", "train.recompute=none", "train.ema=0.99"});
  const std::string text = memory_advice(recipe, count_of(recipe), kGpu);
  const auto row = [](const char* name, const char* size) { return fmt::format("  {:<22}{:>10}\n", name, size); };
  for (const std::string& part :
       {"what uses memory:\n" + row("parameters", "686.5 MiB"), row("gradients", "686.5 MiB"),
        row("optimizer", "4.0 GiB"), row("averaged weights", "1.3 GiB"), row("residual streams", "12.0 GiB"),
        row("attention", "6.0 GiB"), row("feed-forward", "8.2 GiB"), row("inputs of sub-layers", "3.0 GiB"),
        row("activation's output", "4.1 GiB"), row("head", "1.1 GiB"), row("together about", "41.2 GiB"),
        std::string("what to change:\n  train.micro_batch_size (now 16): 8 saves 15.4 GiB\n"),
        std::string("  train.recompute (now none): feed_forward saves 7.1 GiB\n"),
        std::string("  train.recompute (now none): block saves 23.3 GiB\n"),
        std::string("  model.stream_dtype (now float32): bfloat16 saves 6.0 GiB\n")})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  // Nothing that is not there, nothing that would not help.
  const Recipe small = lm_400m("siamese", {"train.recompute=block", "train.batch_size=1", "train.micro_batch_size=1"});
  const std::string little = memory_advice(small, count_of(small), kGpu);
  for (const char* part :
       {"averaged weights", "inputs of", "train.micro_batch_size", "train.recompute", "stream_dtype"})
    EXPECT_EQ(little.find(part), std::string::npos) << part << "\n" << little;
  EXPECT_NE(little.find("what to change:\n  the model: "), std::string::npos) << little;
}

class GpuMemory : public Gpu {};

// With the norms of q, k and v inside the projection v is kept once, and a number a head.
TEST_F(GpuMemory, NormsInsideKeepLess) {
  if (!own_attention_fits(64, gpu_)) GTEST_SKIP() << "no kernels for this GPU";
  const bool before = norms_inside();
  double bytes[2];
  for (const bool inside : {false, true}) {
    set_norms_inside(inside);
    bytes[inside] = plan(lm_400m("siamese_hybrid"), Recompute::feed_forward, gpu_).attention;
  }
  set_norms_inside(before);
  EXPECT_EQ(bytes[0] - bytes[1], 24.0 * 16 * 2048 * (1024 * 2 - 48 * 4));
}

}  // namespace
}  // namespace siamese
