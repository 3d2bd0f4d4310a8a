// The cases of the head's loss and of the embedding, described once: they drive equality and gradients, on the CPU
// (test_head_loss.cpp, test_embedding.cpp) and on a GPU (test_gpu_head.cpp).
#pragma once

#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <string>
#include <vector>

#include "leaves.h"
#include "ops/embedding.h"
#include "ops/lm_head_loss.h"

namespace siamese {

constexpr int64_t kHeadIgnore = -100;

struct HeadCase {
  const char* name;
  int64_t rows, d, vocab;
  int64_t ignored = 0;  // every so many-th target is ignored; 1: all, 0: none
  double z_weight = 0, scale = 1;
};

inline const std::vector<HeadCase>& head_cases() {
  static const std::vector<HeadCase> cases = {
      {.name = "one_row", .rows = 1, .d = 5, .vocab = 7},
      {.name = "two_words", .rows = 6, .d = 4, .vocab = 2},
      {.name = "odd", .rows = 13, .d = 9, .vocab = 33, .z_weight = 0.1},
      {.name = "ignored", .rows = 12, .d = 8, .vocab = 19, .ignored = 3},
      {.name = "ignored_z_loss", .rows = 12, .d = 8, .vocab = 19, .ignored = 3, .z_weight = 0.25},
      {.name = "all_ignored", .rows = 5, .d = 8, .vocab = 24, .ignored = 1, .z_weight = 0.1},
      {.name = "scaled", .rows = 9, .d = 16, .vocab = 40, .ignored = 4, .z_weight = 0.1, .scale = 0.125},
      {.name = "bytes", .rows = 150, .d = 16, .vocab = 256, .z_weight = 1e-4},  // rows enough for oneDNN
      {.name = "wide", .rows = 7, .d = 12, .vocab = 5003, .ignored = 5, .z_weight = 1e-4},
  };
  return cases;
}

struct HeadInputs {
  at::Tensor hidden, weight, targets;
  HeadLossOptions options;
};

/// Logits with a standard deviation of about 2, whatever d.
inline HeadInputs make_inputs(const HeadCase& c, at::ScalarType type, at::Device device = at::kCPU,
                              int64_t chunk_rows = 0) {
  const int64_t number = 1000 * c.vocab + 10 * c.rows;
  auto leaf = [&](at::IntArrayRef shape, int64_t n, double std) {
    return (random_normal(shape, number + n) * std).to(type).to(device).set_requires_grad(true);
  };
  HeadInputs in;
  in.hidden = leaf({c.rows, c.d}, 0, 1.0);
  in.weight = leaf({c.vocab, c.d}, 1, 2.0 / std::sqrt(static_cast<double>(c.d)));
  at::Tensor targets =
      (uniform({c.rows}, at::kCPU, {7, number, kTestSite, 0}) * static_cast<double>(c.vocab)).to(at::kLong);
  for (int64_t i = 0; c.ignored > 0 && i < c.rows; i += c.ignored) targets[i].fill_(kHeadIgnore);
  in.targets = targets.to(device);
  in.options = {kHeadIgnore, c.z_weight, c.scale, chunk_rows};
  return in;
}

/// The same numbers in fp64, where the plain path is the truth the other types are held to.
inline HeadInputs in_double(const HeadInputs& in) {
  HeadInputs out = in;
  for (at::Tensor* t : {&out.hidden, &out.weight})
    *t = t->detach().to(at::kDouble, /*non_blocking=*/false, /*copy=*/true).set_requires_grad(true);
  return out;
}

struct HeadResult {
  double total, ce;
  at::Tensor g_hidden, g_weight;  // for an incoming gradient of `incoming`
};

inline HeadResult run_head(const HeadInputs& in, bool fused, double incoming = 1.0) {
  const HeadLoss loss = lm_head_loss(in.hidden, in.weight, in.targets, in.options, fused);
  const auto g = torch::autograd::grad({loss.total}, {in.hidden, in.weight}, {at::full_like(loss.total, incoming)});
  return {loss.total.item<double>(), loss.ce.item<double>(), g[0], g[1]};
}

/// Ids of an embedding by how they repeat.
struct EmbeddingCase {
  const char* name;
  int64_t tokens, d, vocab;
  int64_t distinct;  // ids drawn from so many; 1: all the same
};

inline const std::vector<EmbeddingCase>& embedding_cases() {
  static const std::vector<EmbeddingCase> cases = {
      {"one_token", 1, 8, 5, 5},
      {"few", 7, 3, 11, 11},
      {"all_equal", 700, 16, 9, 1},
      {"one_short_of_a_chunk", 63, 8, 40, 3},
      {"a_chunk", 64, 8, 40, 3},
      {"one_more", 65, 8, 40, 3},
      {"two_chunks", 128, 24, 40, 2},
      {"bytes", 4096, 40, 256, 256},
      {"many_words", 1000, 264, 5000, 5000},
      {"odd_width", 333, 37, 64, 20},
      {"wide", 70, 16384, 30, 12},
  };
  return cases;
}

inline at::Tensor embedding_ids(const EmbeddingCase& c) {
  const at::Tensor u = uniform({c.tokens}, at::kCPU, {11, c.tokens + c.d, kTestSite, 0});
  return (u * static_cast<double>(c.distinct)).to(at::kLong) + (c.vocab - c.distinct) / 2;
}

/// max|a-b| relative to max|b|, or to `floor` where b is all but zero.
inline double head_error(const at::Tensor& a, const at::Tensor& b, double floor = 1e-30) {
  const at::Tensor x = a.detach().cpu().to(at::kDouble), y = b.detach().cpu().to(at::kDouble);
  return (x - y).abs().max().item<double>() / std::max(floor, y.abs().max().item<double>());
}

}  // namespace siamese
