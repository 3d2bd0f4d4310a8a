// What a forward pass needs besides tensors: whether it trains, which random numbers it draws, a cache, a probe.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ops/random.h"
#include "util/philox.h"

namespace siamese {

/// Keys and values of the tokens seen so far, per block: [B, kv heads, capacity, head size], `length` of them filled.
struct KvCache {
  std::vector<at::Tensor> k, v;
  int64_t length = 0;
};

/// What the mixtures of a forward pass found, a tensor a mixture, first block first (nn/mixture.h).
struct RoutingReport {
  std::vector<at::Tensor> losses;  // [2]: balance, mean logsumexp²; differentiable
  std::vector<at::Tensor> loads;   // [E + 2] fp64: tokens sent to each expert, how many of them were dropped, entropy
};

struct Forward {
  bool training = false;
  int64_t seed = 0, step = 0;
  int64_t row = 0;           // number of the first row in the global batch: random numbers are per global row
  at::Tensor documents;      // [B, T] document numbers for masking; undefined: one document a row
  at::Tensor document_ends;  // the same on the GPU: where documents end in the B·T tokens (ops/attention.h)
  int64_t longest_document = 0;
  /// And on the host: attention that variable length does not serve takes document after document.
  std::shared_ptr<const std::vector<int32_t>> host_document_ends;
  at::Tensor path_scales;    // [sub-layers, B] factors of DropPath drawn before; undefined: drawn where they are used
  KvCache* cache = nullptr;  // generation: append to it and attend to it
  RoutingReport* routing = nullptr;  // mixtures append to it
  /// Called with a name and every intermediate of note; used to find the first tensor that went bad.
  std::function<void(const std::string&, const at::Tensor&)> probe;

  void see(const std::string& name, const at::Tensor& t) const {
    if (probe) probe(name, t);
  }
  /// The draw for dropout on `x` [B, ...] at a site.
  Draw draw(const at::Tensor& x, RandomSite site, int64_t index) const {
    const int64_t per_row = x.size(0) > 0 ? x.numel() / x.size(0) : 0;
    return {seed, step, site_at(site, static_cast<uint32_t>(index)), row * per_row};
  }
};

}  // namespace siamese
