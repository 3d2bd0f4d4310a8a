#include "nn/mixture.h"

#include <ATen/ATen.h>

#include <cmath>

#include "ops/experts.h"
#include "ops/experts_padded.h"
#include "ops/router_product.h"
#include "util/error.h"

namespace siamese {
namespace {

/// fp32, or fp64 where the model is.
at::Tensor exact(const at::Tensor& t) { return t.scalar_type() == at::kDouble ? t : t.to(at::kFloat); }

/// t over the sum of its rows; sigmoids may all be 0.
at::Tensor over_sum(const at::Tensor& t) { return t / t.sum(1, /*keepdim=*/true).clamp_min(1e-20); }

/// Balance and z loss [2] of logits [T, E] and scores, for loads [E] over T·k.
at::Tensor router_losses(const at::Tensor& logits, const at::Tensor& p, const at::Tensor& load, int64_t k) {
  const double experts = static_cast<double>(p.size(1)), sent = static_cast<double>(p.size(0) * k);
  const at::Tensor balance = (load.to(p.scalar_type()) * (experts / sent) * p.mean(0)).sum();
  return at::stack({balance, logits.logsumexp(1).square().mean()});
}

/// Mean over the tokens of -Σ p ln p.
at::Tensor mean_entropy(const at::Tensor& p) { return -at::xlogy(p, p).sum(1).mean(); }

}  // namespace

at::Tensor Mixture::operator()(const at::Tensor& z, const Forward& forward) const {
  const at::Tensor x = z.reshape({-1, z.size(-1)});
  const int64_t count = router.size(0), k = config.top_k, tokens = x.size(0);
  const bool jitter = forward.training && config.jitter > 0;
  at::Tensor logits;
  if (fused && !jitter && x.is_cuda() && x.scalar_type() == at::kBFloat16) {
    logits = router_product(x, exact(router));
  } else {
    at::Tensor seen = exact(x);
    if (jitter) {
      const at::Tensor u = uniform(z.sizes(), z.device(), forward.draw(z, kRouterJitter, block)).view(x.sizes());
      seen = seen * (1 + config.jitter * (2 * u - 1)).to(seen.scalar_type());
    }
    logits = at::linear(seen, exact(router));
  }
  if (forward.probe) forward.see(fmt::format("router logits of block {}", block), logits);
  const bool softmax = config.score == "softmax";
  const at::Tensor scores = softmax ? logits.softmax(1) : logits.sigmoid();
  at::Tensor chosen;
  {
    const at::NoGradGuard no_grad;
    chosen = std::get<1>(at::topk(bias.defined() ? scores + bias : scores, k, 1));
  }
  at::Tensor weights = scores.gather(1, chosen);
  if (config.renormalize) weights = over_sum(weights);

  const bool limited = forward.training && config.capacity_factor > 0;
  const double mean = static_cast<double>(tokens * k) / static_cast<double>(count);
  const int64_t capacity = limited ? static_cast<int64_t>(std::ceil(config.capacity_factor * mean)) : 0;
  at::Tensor load, r;
  if (fused && activation == Activation::swiglu && expert_kernels_serve(x, w1)) {
    const PaddedRows rows = expert_sort(chosen, count, capacity);
    load = rows.load;
    r = experts_padded(x, rows, weights, w1, w2);
  } else {
    const ExpertRows rows = expert_rows(chosen, count, capacity);
    load = rows.load;
    r = experts(x, rows, weights, w1, w2, activation, fused);
  }
  if (forward.routing != nullptr) {
    const at::Tensor p = softmax ? scores : over_sum(scores);
    forward.routing->losses.push_back(router_losses(logits, p, load, k));
    const at::Tensor taken = capacity > 0 ? load.clamp_max(capacity) : load,
                     dropped = (load - taken).sum().to(at::kDouble), entropy = mean_entropy(p.detach()).to(at::kDouble);
    forward.routing->loads.push_back(at::cat({load.to(at::kDouble), at::stack({dropped, entropy})}));
  }
  if (shared.in.weight.defined()) r = r + shared(shared.in(x));
  return r.view(z.sizes());
}

void move_bias(at::Tensor bias, const at::Tensor& load, double rate) {
  const at::NoGradGuard no_grad;
  bias.add_((load.mean() - load).sign().to(bias.scalar_type()), rate);
}

}  // namespace siamese
