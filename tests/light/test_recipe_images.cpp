// Recipes of image models: what they get by default, and what is refused.
#include "recipe_errors.h"

namespace siamese::recipe_test {
namespace {

TEST(RecipeImages, FamiliesHaveTheirOwnDefaults) {
  const Recipe deit = parse("model: {family: deit}"), dit = parse("model: {family: dit}");
  EXPECT_EQ(deit.model.activation, "gelu");
  EXPECT_EQ(dit.model.activation, "gelu_tanh");
  EXPECT_EQ(dit.model.init.kind, "xavier");
  for (const Recipe& r : {deit, dit}) {
    EXPECT_EQ(r.model.norm, "layer");
    EXPECT_EQ(r.model.norm_eps, 1e-6);
    EXPECT_TRUE(r.model.bias && r.model.norm_bias);
    EXPECT_EQ(r.model.scheme, "siamese");
    EXPECT_EQ(r.data.source, "shapes");
    EXPECT_EQ(parse(to_yaml(r)), r);
  }
  EXPECT_EQ(deit.augment.normalize, "imagenet");
  EXPECT_EQ(dit.augment.normalize, "half");
  EXPECT_EQ(dit.train.weight_decay, 0);
  // Options belong to what the family has.
  EXPECT_EQ(parse("model: {family: deit, norm_bias: false, init: {std: 0.03}}").model.init.std, 0.03);
  EXPECT_FALSE(parse("model: {family: deit, norm_affine: false}").model.norm_bias);
  EXPECT_EQ(parse("{model: {family: dit}, data: {shapes: 50}}").data.shapes, 50);
  // What a recipe says wins.
  const Recipe own = parse("{model: {family: dit, norm: rms, activation: swiglu}, train: {weight_decay: 0.1}}");
  EXPECT_EQ(own.model.norm, "rms");
  EXPECT_FALSE(own.model.norm_bias);
  EXPECT_EQ(own.model.activation, "swiglu");
  EXPECT_EQ(own.train.weight_decay, 0.1);
}

TEST(RecipeImages, WhatCannotWorkIsRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {"{model: {family: deit, image_size: 30}}", "model.image_size (30) is not a multiple of model.patch_size (16)"},
      {"{model: {family: dit, d_model: 6, n_heads: 2}}", "model.d_model (6) must be a multiple of 4"},
      {"{model: {family: deit, n_kv_heads: 2}}", "model.n_kv_heads (2) must be model.n_heads (4)"},
      {"{model: {family: deit}, data: {text: a.txt}}", "data.text and data.tokens are for model.family lm"},
      {"{model: {family: deit}, data: {source: sentences}}",
       "data.source sentences does not go with model.family deit"},
      {"{data: {source: shapes}}", "data.source shapes does not go with model.family lm"},
      {"{model: {family: deit}, data: {source: idx}}", "data.source idx needs data.images"},
      {"{model: {family: deit}, data: {source: shapes, images: x}}", "data.images is set, but data.source is shapes"},
      {"{model: {family: deit}, data: {source: latents, images: x}}", "data.source latents is for model.family dit"},
      {"{model: {family: deit}, distill: {kind: hard}}", "distill.kind hard needs a checkpoint in distill.teacher"},
      {"{model: {family: dit}, distill: {kind: soft, teacher: x}}", "distill.kind soft is for model.family deit"},
      {"{model: {family: dit}, augment: {normalize: imagenet}}", "augment.normalize must be half"},
      {"{model: {family: dit, label_dropout: 0}}", "diffusion.sample_cfg (3) needs model.label_dropout above 0"},
      {"{model: {family: dit}, diffusion: {sample_steps: 2000}}", "diffusion.sample_steps (2000) is more than"},
      {"{model: {family: dit}, augment: {mixup: 0.8}}", "a diffusion model has no targets to mix"},
      {"{model: {family: dit, embedding_dropout: 0.1}}", "model.embedding_dropout is not for model.family dit"},
      {"{model: {family: dit}, data: {source: latents, images: x}, augment: {flip: 0.5}}",
       "augment.flip (0.5) is for pictures; data.source latents goes without augmentation"},
      {"{model: {family: dit}, data: {source: latents, images: x}, augment: {crop: resized, crop_scale: 0.5}}",
       "augment.crop (resized) is for pictures"},
      {"{model: {family: deit, channels: 4}}",
       "model.channels (4) must be 1 (grey) or 3 (colour): data.source shapes has pictures"},
      {"{model: {family: deit}, distill: {teacher: x}}", "distill.teacher is set, but distill.kind is none"},
      {"{distill: {kind: hard, teacher: x}}", "distill.kind hard is for model.family deit, not lm"},
      {"{model: {family: dit}, diffusion: {steps: 20, sample_steps: 10}}", "diffusion.steps (20) must be above 20"},
      {"{model: {family: deit}, train: {sequence_length: 9}}", "train.sequence_length is for model.family lm"},
      {"{model: {family: dit, distilled: true}}", "model.distilled is an option of deit"},
      {"{train: {layer_decay: 0.5}}", "train.layer_decay is an option of deit"},
      {"{model: {family: deit}, augment: {crop_scale: 0.5}}", "augment.crop_scale is an option of resized"},
  };
  for (const auto& [yaml, message] : cases) {
    const std::string found = message_of([&] { parse(yaml); });
    EXPECT_NE(found.find(message), std::string::npos) << yaml << ": " << found;
  }
}

TEST(RecipeImages, KeysWithoutEffectAreRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {"deit", "train.z_loss=1e-4"},        {"dit", "train.z_loss=1e-4"},         {"deit", "eval.problems=9"},
      {"deit", "diffusion.steps=50"},       {"lm", "diffusion.schedule=cosine"},  {"deit", "diffusion.predict=v"},
      {"deit", "diffusion.sample_every=1"}, {"lm", "diffusion.sample_steps=9"},   {"deit", "diffusion.sample_cfg=1"},
      {"dit", "diffusion.latent_scale=1"},  {"deit", "diffusion.latent_scale=1"}, {"deit", "distill.alpha=0.1"},
      {"deit", "distill.temperature=3"},    {"lm", "distill.temperature=3"},
  };
  for (const auto& [family, set] : cases) {
    const std::string key = std::string(set).substr(0, std::string(set).find('=')),
                      yaml = std::string("model: {family: ") + family + "}", found = error_of(yaml, {set});
    EXPECT_TRUE(found.starts_with(std::string("--set ") + set + ": " + key + " is an option of ")) << found;
  }
  EXPECT_EQ(error_of("model: {family: deit}\ntrain:\n  z_loss: 1e-4\n"),
            "x.yaml:3: train.z_loss is an option of lm; model.family is deit");
  const char* const hard = "{model: {family: deit}, distill: {kind: hard, teacher: x, alpha: 0.1}}";
  EXPECT_EQ(parse(hard).distill.alpha, 0.1);
  EXPECT_TRUE(contains(error_of(hard, {"distill.temperature=2"}), "is an option of soft; distill.kind is hard"));
  // Of a recipe that is turned into something else they are forgotten.
  EXPECT_EQ(parse(hard, {"distill.kind=none", "distill.teacher="}).distill.alpha, 0.5);
  EXPECT_EQ(parse("{model: {family: dit}, diffusion: {predict: v}}", {"model.family=deit"}).diffusion.predict,
            "epsilon");
}

}  // namespace
}  // namespace siamese::recipe_test
