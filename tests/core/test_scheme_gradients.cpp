// Every gradient of every scheme against finite differences: in a language model, and through the scheme's interface
// with adaLN modulation, gates and DropPath factors.
#include "scheme_cases.h"

namespace siamese {
namespace {

class SchemeGradients : public testing::TestWithParam<SchemeCase> {};
INSTANTIATE_TEST_SUITE_P(All, SchemeGradients, testing::ValuesIn(scheme_cases()), scheme_case_name);

void expect_model_gradients(const ModelConfig& config) {
  const auto model = random_model(config);
  const at::Tensor ids = random_ids(2, 6, config.vocab_size);
  expect_gradients([&] { return model->loss(ids, {}, 0.01).total; }, leaves_of(model->params()));
}

TEST_P(SchemeGradients, LanguageModelFused) { expect_model_gradients(GetParam().config); }

TEST_P(SchemeGradients, LanguageModelPlain) {
  ModelConfig c = GetParam().config;
  c.fused = false;
  expect_model_gradients(c);
}

TEST_P(SchemeGradients, LanguageModelLayerNormWithBiases) {
  ModelConfig c = GetParam().config;
  c.norm = "layer";
  c.norm_bias = c.bias = true;
  c.qk_norm = "head";
  c.activation = "gelu";
  c.weight_tying = false;
  expect_model_gradients(c);
}

void expect_run_gradients(SchemeRun& run) {
  run.modulate_all();
  const at::Tensor weight = random_normal(run.embedding.sizes(), 1);
  expect_gradients([&] { return (run.output() * weight).sum(); }, run.leaves);
}

TEST_P(SchemeGradients, Interface) {
  SchemeRun run(GetParam().config);
  expect_run_gradients(run);
}

/// As in DiT: affine-free input norms, no final norm.
TEST_P(SchemeGradients, InterfaceInDit) {
  ModelConfig c = GetParam().config;
  c.norm = "layer";
  c.norm_bias = true;
  SchemeRun run(c, /*input_affine=*/false, /*final_norm=*/false);
  expect_run_gradients(run);
}

}  // namespace
}  // namespace siamese
