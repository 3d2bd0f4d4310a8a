#include "kernels/adamw.h"

#include <algorithm>
#include <cmath>

#include "kernels/bf16.h"

namespace siamese::kernels {
namespace {

/// A chunk's elements: where they begin in their tensor, and how many they are.
struct Part {
  const AdamwTensor& t;
  const AdamwGradient& g;
  int64_t first, count;

  Part(const AdamwHostTables& tables, int64_t chunk)
      : t(tables.tensors[tables.chunks[chunk].tensor]),
        g(tables.gradients[tables.chunks[chunk].tensor]),
        first(int64_t{tables.chunks[chunk].number} * kAdamwChunk),
        count(std::min<int64_t>(kAdamwChunk, t.count - first)) {}
  float gradient(int64_t i) const {
    if (g.data == nullptr) return 0.f;
    return g.bf16 != 0 ? load<float>(static_cast<const bf16*>(g.data)[i]) : static_cast<const float*>(g.data)[i];
  }
};

template <class F>
void for_values(const Part& part, const F& f) {
  for (int64_t i = part.first; i < part.first + part.count; ++i) f(i);
}

}  // namespace

void adamw_accumulate(const AdamwHostTables& tables, int64_t begin, int64_t end, float* sums, bool add) {
  for (int64_t chunk = begin; chunk < end; ++chunk) {
    const Part part(tables, chunk);
    for_values(part, [&](int64_t i) {
      float& sum = sums[part.t.offset + i];
      sum = (add ? sum : 0.f) + part.gradient(i);
    });
  }
}

void adamw_squares(const AdamwHostTables& tables, int64_t begin, int64_t end, float* partials) {
  for (int64_t chunk = begin; chunk < end; ++chunk) {
    const Part part(tables, chunk);
    double sum = 0;
    for_values(part, [&](int64_t i) { sum += static_cast<double>(part.gradient(i)) * part.gradient(i); });
    partials[chunk] = static_cast<float>(sum);
  }
}

void adamw_control(AdamwControl* control, const float* partials, int64_t chunks, const double* loss) {
  AdamwControl& c = *control;
  double sum = 0;
  for (int64_t i = 0; i < chunks; ++i) sum += partials[i];
  c.norm = std::sqrt(sum);
  c.loss = loss != nullptr ? *loss : 0.0;
  if (c.bad_step == 0 && !(std::isfinite(c.norm) && std::isfinite(c.loss))) c.bad_step = c.step;
  c.scale = c.clip > 0 && c.norm > c.clip ? c.clip / (c.norm + 1e-6) : 1.0;
  c.step_size = c.lr / (1.0 - std::pow(c.beta1, c.step));
  c.over_root = 1.0 / std::sqrt(1.0 - std::pow(c.beta2, c.step));
}

void adamw_update(const AdamwHostTables& tables, int64_t begin, int64_t end, const AdamwControl& c) {
  if (c.bad_step != 0) return;
  const auto rate1 = static_cast<float>(1.0 - c.beta1), beta2 = static_cast<float>(c.beta2),
             rate2 = static_cast<float>(1.0 - c.beta2), scale = static_cast<float>(c.scale),
             over_root = static_cast<float>(c.over_root), eps = static_cast<float>(c.eps),
             average = static_cast<float>(c.average_rate);
  for (int64_t chunk = begin; chunk < end; ++chunk) {
    const Part part(tables, chunk);
    const AdamwTensor& t = part.t;
    const auto decay = static_cast<float>(t.decays != 0 ? t.rate * c.lr * c.weight_decay : 0.0),
               step_size = static_cast<float>(t.rate * c.step_size);
    for_values(part, [&](int64_t i) {
      float &p = t.master[i], &m = t.m[i], &v = t.v[i];
      const float g = scale * part.gradient(i);
      p -= decay * p;
      m += rate1 * (g - m);
      v = beta2 * v + rate2 * g * g;
      p -= step_size * m / (std::sqrt(v) * over_root + eps);
      if (t.parameter != nullptr) static_cast<bf16*>(t.parameter)[i] = store<bf16>(p);
      if (t.average != nullptr) t.average[i] += average * (p - t.average[i]);
    });
  }
}

}  // namespace siamese::kernels
