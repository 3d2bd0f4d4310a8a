// The pieces of a mixture in `siamese bench --ops`: OLMoE's experts, 64 of them, 8 a token.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include "cli/bench_ops.h"
#include "ops/expert_ops.h"

namespace siamese::cli {

using at::Tensor;

void bench_experts(OpTimer& timer) {
  constexpr int64_t kExperts = 64, kTop = 8, kTokens = 16384, kWidth = 2048, kHidden = 1024;
  const char* const names[] = {"expert_sort", "spread_rows", "gather_sum", "weighted_swiglu"};
  bool any = false;
  for (const char* name : names) any = timer.wants(name) || any;
  if (!any) return;
  const auto x = noise_sets(timer, {kTokens, kWidth});
  const Tensor scores = at::rand({kTokens, kExperts}, x[0].options().dtype(at::kFloat));
  const Tensor chosen = std::get<1>(scores.topk(kTop, -1));
  const PaddedRows rows = expert_sort(chosen, kExperts, 0);
  const Tensor weights = at::rand({kTokens * kTop}, scores.options());
  const int64_t count = rows.slot.size(0), one = bytes_of_rows({x[0]});
  const auto wide = noise_sets(timer, {count, kWidth}), p = noise_sets(timer, {count, 2 * kHidden}),
             u = noise_sets(timer, {count, kHidden});
  const int64_t many = bytes_of_rows({wide[0]}), in = bytes_of_rows({p[0]}), half = bytes_of_rows({u[0]});
  const std::string size = fmt::format("{} of {} x {}", kTop, kTokens, kWidth);
  if (timer.wants(names[0]))
    timer.row(names[0], size, "", static_cast<int64_t>(chosen.nbytes()) + 3 * 4 * count,
              [&](int) { expert_sort(chosen, kExperts, 0); });
  if (timer.wants(names[1]))
    timer.row(names[1], size, "", one + many,
              [&](int i) { spread_rows(x[static_cast<size_t>(i)], rows.place, rows.token); });
  if (timer.wants(names[2]))
    timer.row(names[2], size, "", many + one,
              [&](int i) { gather_sum(wide[static_cast<size_t>(i)], rows.place, kTop); });
  if (!timer.wants(names[3])) return;
  const std::string hidden = fmt::format("{} x {}", count, kHidden);
  timer.row(names[3], hidden, "forward", in + half,
            [&](int i) { weighted_swiglu(p[static_cast<size_t>(i)], weights, rows.slot); });
  timer.row(names[3], hidden, "backward", 2 * in + 2 * half, [&](int i) {
    weighted_swiglu_backward(p[static_cast<size_t>(i)], u[static_cast<size_t>(i)], weights, rows.slot);
  });
}

}  // namespace siamese::cli
