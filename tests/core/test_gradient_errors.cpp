// Gradients of deep models in bf16, fused, against fp32: as near as plain operations come, and not along the gradient.
#include "gpu.h"
#include "gradient_errors.h"

namespace siamese {
namespace {

void expect_as_near(const ModelConfig& config, at::Device device, int64_t rows, int64_t length) {
  const GradientErrors errors(config, device, random_ids(rows, length + 1, config.vocab_size).to(device));
  const GradientError plain = errors.of(false, at::kFloat);
  auto text = [&](const char* what, const GradientError& e) {
    const std::string line = fmt::format("{} {}: off by {:.3e}, along the gradient by {:+.2e}; most {:.3e} ({})",
                                         config.scheme, what, e.size, e.along, e.worst, e.worst_name);
    testing::Test::RecordProperty(fmt::format("{} {}", config.scheme, what), line);
    std::puts(line.c_str());
    return line;
  };
  const std::string reference = text("plain", plain);
  for (const auto& [name, stream] : {std::pair("fused, streams in fp32", at::kFloat), {"fused", at::kBFloat16}}) {
    const GradientError fused = errors.of(true, stream);
    const std::string what = text(name, fused) + "\n" + reference;
    EXPECT_LE(fused.size, (stream == at::kFloat ? 1.25 : 2.0) * plain.size) << what;
    EXPECT_LE(std::abs(fused.along), std::abs(plain.along) + 0.2 * plain.size) << what;
    EXPECT_LE(fused.worst, (stream == at::kFloat ? 1.5 : 3.0) * plain.worst) << what;
  }
}

ModelConfig deep(const std::string& scheme, int64_t width, int64_t blocks, int64_t vocabulary) {
  ModelConfig c = tiny_config(scheme);
  c.d_model = width, c.n_layers = static_cast<int>(blocks);
  c.n_heads = c.n_kv_heads = width / 64;
  c.mlp_hidden_size = 16 * ((width * 11 / 2) / 16);
  c.vocab_size = vocabulary;
  return c;
}

TEST(GradientErrors, OfDeepModels) {
  for (const char* scheme : {"pre", "siamese", "siamese_hybrid"})
    expect_as_near(deep(scheme, 64, 12, 256), at::kCPU, 4, 64);
}

class GpuGradientErrors : public Gpu {};

// In the size of lm-400m, where all its kernels serve.
TEST_F(GpuGradientErrors, OfDeepModels) {
  if (under_sanitizer()) GTEST_SKIP() << "too large under a sanitizer";
  for (const char* scheme : {"pre", "siamese", "siamese_hybrid"})
    expect_as_near(deep(scheme, 1024, 24, 50304), gpu_, 10, 1024);
}

}  // namespace
}  // namespace siamese
