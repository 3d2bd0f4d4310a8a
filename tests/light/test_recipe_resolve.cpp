// Recipes: stand-ins, impossible combinations, printing.
#include <gtest/gtest.h>

#include "recipe/recipe.h"
#include "recipe_errors.h"

namespace siamese {
namespace {

using namespace recipe_test;

TEST(Recipe, StandInsAreResolved) {
  const Recipe r = parse("model: {d_model: 64, n_heads: 2}\ntrain: {batch_size: 12, precision: bfloat16}\n");
  EXPECT_EQ(r.model.n_kv_heads, 2);
  EXPECT_EQ(r.model.mlp_hidden_size, 512);
  EXPECT_EQ(r.model.stream_dtype, "bfloat16");
  EXPECT_EQ(r.model.vocab_size, 0);
  EXPECT_EQ(r.model.streams, 0);
  EXPECT_EQ(r.train.micro_batch_size, 12);
  EXPECT_EQ(r.data.source, "sentences");
  EXPECT_EQ(parse("model: {d_model: 64, activation: gelu}").model.mlp_hidden_size, 256);
  EXPECT_EQ(parse("model: {stream_dtype: bfloat16}").model.stream_dtype, "bfloat16");
  EXPECT_EQ(parse("data: {text: a}").data.source, "text");
  EXPECT_EQ(parse("data: {tokens: a}").data.source, "tokens");
  EXPECT_EQ(parse("model: {scheme: hc_static}").model.streams, 2);
  EXPECT_EQ(parse("model: {scheme: hc_dynamic}").model.streams, 2);
  EXPECT_EQ(parse("model: {scheme: mhc}").model.streams, 4);
  EXPECT_EQ(parse("model: {scheme: mhc, streams: 3}").model.streams, 3);
  EXPECT_EQ(parse_recipe("", "some/where/lm-1.3b.yaml").name, "lm-1.3b");
}

TEST(Recipe, ImpossibleCombinationsNameTheirKeys) {
  const std::pair<const char*, const char*> cases[] = {
      {"model:\n  d_model: 250\n", "x.yaml:2: model.d_model (250) is not a multiple of model.n_heads (4)"},
      {"model:\n  n_heads: 3\n", "x.yaml:2: model.d_model (256) is not a multiple of model.n_heads (3)"},
      {"model: {n_kv_heads: 3}", "x.yaml:1: model.n_heads (4) is not a multiple of model.n_kv_heads (3)"},
      {"model: {n_kv_heads: 8}", "x.yaml:1: model.n_heads (4) is not a multiple of model.n_kv_heads (8)"},
      {"model: {d_model: 12}",
       "x.yaml:1: model.d_model / model.n_heads is the head size, 3; rotary positions need an even one"},
      {"model: {mlp_hidden_size: 101}",
       "x.yaml:1: model.mlp_hidden_size (101) must be even: model.activation swiglu splits it in two halves"},
      {"model: {norm_bias: true}", "x.yaml:1: model.norm_bias is an option of layer; model.norm is rms"},
      {"model: {norm: layer, norm_bias: true, norm_affine: false}",
       "x.yaml:1: model.norm_bias needs model.norm_affine: true"},
      {"model: {qk_norm: projection}",
       "x.yaml:1: model.qk_norm projection does not go with model.scheme siamese_hybrid, which norms q, k and v per "
       "head"},
      {"train: {micro_batch_size: 3}",
       "x.yaml:1: train.batch_size (8) is not a multiple of train.micro_batch_size (3)"},
      {"train: {schedule: wsd, decay_fraction: 0.95}",
       "x.yaml:1: train.warmup_steps (100) and train.decay_fraction (0.95) take more than train.steps (1000)"},
      {"train: {decay_fraction: 0.5}", "x.yaml:1: train.decay_fraction is an option of wsd; train.schedule is cosine"},
      {"model: {init: {std: 1}}",
       "x.yaml:1: model.init.std is an option of normal, full_megatron; model.init.kind is mitchell"},
      {"data: {text: a, tokens: b}", "x.yaml:1: data.text and data.tokens are both set; one of them has to be \"\""},
      {"data: {text: a, source: sentences}", "x.yaml:1: data.text is set, but data.source is sentences, not text"},
      {"data: {text: a, source: tokens}", "x.yaml:1: data.text is set, but data.source is tokens, not text"},
      {"data: {tokens: a, source: arithmetic}",
       "x.yaml:1: data.tokens is set, but data.source is arithmetic, not tokens"},
      {"data: {validation_tokens: a}",
       "x.yaml:1: data.validation_tokens is set, but data.source is sentences, not tokens"},
      {"data: {source: text}", "x.yaml:1: data.source text needs a file in data.text"},
      {"data: {source: tokens}", "x.yaml:1: data.source tokens needs files in data.tokens"},
      {"data: {tokens: a, document_masking: true}",
       "x.yaml:1: data.document_masking needs data.eos_id, the token that ends a document"},
      {"data: {tokens: a, eos_id: 65536}", "x.yaml:1: data.eos_id (65536) does not fit data.token_dtype uint16"},
      {"data: {tokens: a, eos_id: 7}\nmodel: {vocab_size: 7}",
       "x.yaml:1: data.eos_id (7) is not below model.vocab_size (7)"},
      {"train: {graph: on}\nmodel: {drop_path: 0.1}",
       "x.yaml:1: train.graph is on, but model.drop_path draws other random numbers at every step: one of the two has "
       "to go"},
      {"data: {document_masking: true}\ntrain: {graph: on}",
       "x.yaml:2: train.graph is on, but data.document_masking cuts every batch into other documents: one of the two "
       "has to go"},
      {"name: a/b", "x.yaml:1: name ('a/b') must be fit for a folder: at most 200 bytes and no '/'"},
      {"extends: a", "x.yaml:1: extends works in files only"},
  };
  for (const auto& [yaml, message] : cases) EXPECT_EQ(error_of(yaml), message);
  EXPECT_EQ(error_of("model: {d_model: 256}\n", {"model.n_heads=3"}),
            "--set model.n_heads=3: model.d_model (256) is not a multiple of model.n_heads (3)");
  EXPECT_EQ(
      error_of("train: {graph: on}\n", {"model.fused=false"}),
      "--set model.fused=false: train.graph is on, but model.fused is false, and plain operators may wait for the "
      "GPU: one of the two has to go");
  EXPECT_NO_THROW(parse("model: {drop_path: 0.1}\ntrain: {graph: auto}"));
  EXPECT_NO_THROW(parse("model: {qk_norm: head}"));
  EXPECT_NO_THROW(parse("model: {scheme: pre, qk_norm: projection}"));
  EXPECT_NO_THROW(parse("data: {document_masking: true}"));
  EXPECT_NO_THROW(parse("data: {text: a, document_masking: true}"));
  EXPECT_NO_THROW(parse("data: {tokens: a, document_masking: true, eos_id: 0}"));
}

TEST(Recipe, OptionsBelongToTheirSchemes) {
  const std::string pre = "model.streams is an option of hc_static, hc_dynamic, mhc; model.scheme is pre";
  EXPECT_EQ(error_of("model:\n  scheme: pre\n  streams: 2\n"), "x.yaml:3: " + pre);
  EXPECT_EQ(error_of("", {"model.streams=2", "model.scheme=pre"}), "--set model.streams=2: " + pre);
  EXPECT_EQ(error_of("model: {scheme: pre}\n", {"model.streams=2"}), "--set model.streams=2: " + pre);
  EXPECT_EQ(error_of("model: {scheme: pre, input_norm: false}"),
            "x.yaml:1: model.input_norm is an option of siamese, siamese_hybrid; model.scheme is pre");
  EXPECT_NO_THROW(parse("model: {scheme: pre, input_norm: true, streams: 0}"));  // defaults say nothing
  // An option below a scheme that was set on top of it is forgotten.
  EXPECT_EQ(parse("model: {input_norm: false}\n", {"model.scheme=pre"}), parse("", {"model.scheme=pre"}));
  EXPECT_EQ(parse("model: {scheme: mhc, streams: 3}\n", {"model.scheme=span"}), parse("", {"model.scheme=span"}));
  EXPECT_EQ(parse("model: {scheme: mhc, streams: 3}\n", {"model.scheme=hc_static"}).model.streams, 3);
}

TEST(Recipe, PrintsWhatItReads) {
  Recipe r =
      parse("", {"model.scheme=mhc", "train.lr=0.1", "train.eps=4.9406564584124654e-324", "train.seed=12345678901",
                 "data.tokens=[a.npy, '- b: \"c\\ #', \"null\", ü ]", "name=\"null\"", "train.ema=0.9999"});
  const std::string yaml = to_yaml(r);
  EXPECT_EQ(parse_recipe(yaml, "other.yaml"), r) << yaml;
  EXPECT_EQ(to_yaml(parse_recipe(yaml, "other.yaml")), yaml);
  for (const char* const line : {"\ntrain:\n", "\n  init:\n    kind: mitchell", "\n  vocab_size: 0  # the data's\n",
                                 "\n  mix_fraction: 0.25  # only mix_ln\n",
                                 "\n  schedule: cosine  # cosine | linear | constant | wsd\n", "\n  lr: 0.1\n"}) {
    EXPECT_TRUE(contains(yaml, line)) << line << yaml;
  }
  for (const std::string& scheme : scheme_names()) {
    const Recipe other = parse("", {"model.scheme=" + scheme});
    EXPECT_EQ(parse_recipe(to_yaml(other), "y.yaml"), other) << scheme;
  }
}

TEST(Recipe, KeysAreListedWithTypeDefaultAndMeaning) {
  const std::string keys = recipe_keys();
  EXPECT_TRUE(contains(keys, "train.lr                     float 0.001          peak learning rate [above 0]\n"))
      << keys;
  EXPECT_TRUE(contains(keys, "rows of the embedding [between 0 and 16777216; 0: the data's]\n"));
  EXPECT_TRUE(contains(keys, "what the end of a block adds up [block | ffn; only span]\n"));
  EXPECT_TRUE(contains(keys, "[cosine | linear | constant | wsd]\n"));
}

}  // namespace
}  // namespace siamese
