#include "models/generate.h"

#include <ATen/ATen.h>

#include "util/error.h"
#include "util/philox.h"

namespace siamese {

int64_t choose(const at::Tensor& logits, const SamplingOptions& o, int64_t position) {
  if (!at::isfinite(logits).all().item<bool>()) fail("the model's logits are not finite at position {}", position);
  if (o.temperature <= 0) return logits.argmax().item<int64_t>();
  auto [sorted, order] = (logits.to(at::kCPU, at::kDouble) / o.temperature).sort(0, /*descending=*/true);
  if (o.top_k > 0) sorted = sorted.slice(0, 0, std::min<int64_t>(o.top_k, sorted.size(0)));
  const at::Tensor p = at::softmax(sorted, 0);
  const double* mass = p.const_data_ptr<double>();
  // The smallest set of most likely ids whose mass reaches top_p; at least one.
  int64_t count = 0;
  double total = 0;
  while (count < p.size(0) && (count == 0 || total < o.top_p)) total += mass[count++];
  const double u =
      total *
      uniform_open(RandomKey(static_cast<uint64_t>(o.seed), static_cast<uint64_t>(position), kSampling).word(0));
  double sum = 0;
  int64_t pick = 0;
  for (; pick + 1 < count; ++pick) {
    sum += mass[pick];
    if (u < sum) break;
  }
  return order[pick].item<int64_t>();
}

std::vector<int64_t> generate(const LanguageModel& model, const std::vector<int64_t>& prompt, const SamplingOptions& o,
                              const std::function<bool(int64_t, const at::Tensor&)>& emit) {
  if (prompt.empty()) fail("the prompt is empty: generation needs at least one token to start from");
  for (const int64_t id : prompt)
    if (id < 0 || id >= model.config().vocab_size)
      fail("prompt id {} is outside the vocabulary of {}", id, model.config().vocab_size);
  const at::NoGradGuard no_grad;
  const auto device = model.params().device();
  std::vector<int64_t> all = prompt, written;
  KvCache cache;
  Forward forward;
  if (o.cache) {
    cache = model.make_cache(1, static_cast<int64_t>(prompt.size()) + o.tokens);
    forward.cache = &cache;
  }
  size_t fed = 0;  // tokens the cache has seen
  while (static_cast<int64_t>(written.size()) < o.tokens) {
    const std::vector<int64_t> in(all.begin() + static_cast<std::ptrdiff_t>(o.cache ? fed : 0), all.end());
    const at::Tensor ids = at::tensor(in, at::kLong).unsqueeze(0).to(device);
    const at::Tensor h = model.hidden(ids, forward);
    if (o.cache) cache.length += ids.size(1), fed = all.size();
    const at::Tensor logits = model.logits(h.select(1, h.size(1) - 1)).squeeze(0);
    const int64_t id = choose(logits, o, static_cast<int64_t>(all.size()));
    if (id == o.stop) break;
    all.push_back(id);
    written.push_back(id);
    if (emit && !emit(id, logits)) break;
  }
  return written;
}

}  // namespace siamese
