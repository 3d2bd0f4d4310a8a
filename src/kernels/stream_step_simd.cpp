// The row loops of the stream step; compiled once per instruction set (SIAMESE_SIMD) and vectorised by the compiler.
#include <cmath>

#include "kernels/stream_step.h"

namespace siamese::kernels::SIAMESE_SIMD {

template <class C>
struct Stats {
  C mean = 0, rho = 1;
};

template <class C>
Stats<C> statistics(const C* v, int64_t d, bool layer, C eps) {
  Stats<C> s;
  if (layer) {
    C sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < d; ++i) sum += v[i];
    s.mean = sum / static_cast<C>(d);
  }
  C square = 0;
  const C mean = s.mean;
#pragma omp simd reduction(+ : square)
  for (int64_t i = 0; i < d; ++i) square += (v[i] - mean) * (v[i] - mean);
  s.rho = C(1) / std::sqrt(square / static_cast<C>(d) + eps);
  return s;
}

/// hat = x̂ of v.
template <class C>
Stats<C> normalise(const C* v, int64_t d, bool layer, C eps, C* hat) {
  const Stats<C> s = statistics(v, d, layer, eps);
#pragma omp simd
  for (int64_t i = 0; i < d; ++i) hat[i] = (v[i] - s.mean) * s.rho;
  return s;
}

/// out (+)= γ·hat + β
template <bool add, class C, class Z>
void affine(const C* hat, const Z* gain, const Z* bias, int64_t d, C* out) {
  if (gain == nullptr) {
#pragma omp simd
    for (int64_t i = 0; i < d; ++i) out[i] = (add ? out[i] : C(0)) + hat[i];
  } else {
#pragma omp simd
    for (int64_t i = 0; i < d; ++i) out[i] = (add ? out[i] : C(0)) + load<C>(gain[i]) * hat[i];
  }
  if (bias != nullptr) {
#pragma omp simd
    for (int64_t i = 0; i < d; ++i) out[i] += load<C>(bias[i]);
  }
}

/// g ← Nᵀg in place, and the column sums of this row.
template <class C, class Z>
void norm_backward(const Stats<C>& s, const C* hat, const Z* gain, bool has_bias, bool layer, int64_t d, C* g,
                   C* d_gain, C* d_bias) {
  if (has_bias) {
#pragma omp simd
    for (int64_t i = 0; i < d; ++i) d_bias[i] += g[i];
  }
  C dot = 0, sum = 0;
  if (gain != nullptr) {
#pragma omp simd reduction(+ : dot, sum)
    for (int64_t i = 0; i < d; ++i) {
      const C gi = g[i], product = gi * hat[i], weighted = load<C>(gain[i]);
      d_gain[i] += product;
      dot += product * weighted;
      g[i] = gi * weighted;
      sum += gi * weighted;
    }
  } else {
#pragma omp simd reduction(+ : dot, sum)
    for (int64_t i = 0; i < d; ++i) {
      dot += g[i] * hat[i];
      sum += g[i];
    }
  }
  const C mean_dot = dot / static_cast<C>(d), mean = layer ? sum / static_cast<C>(d) : C(0), rho = s.rho;
#pragma omp simd
  for (int64_t i = 0; i < d; ++i) g[i] = rho * (g[i] - hat[i] * mean_dot - mean);
}

/// v = stream + scale·r of one row.
template <class C, class S, class Z>
void written(const S* stream, const Z* r, C scale, int64_t d, C* v) {
  if (r == nullptr) {
#pragma omp simd
    for (int64_t i = 0; i < d; ++i) v[i] = load<C>(stream[i]);
  } else {
#pragma omp simd
    for (int64_t i = 0; i < d; ++i) v[i] = load<C>(stream[i]) + scale * load<C>(r[i]);
  }
}

template <class C, class T>
void save(const C* v, int64_t d, T* out) {
#pragma omp simd
  for (int64_t i = 0; i < d; ++i) out[i] = store<T>(v[i]);
}

template <class T>
T* row_of(T* base, int64_t row, int64_t d) {
  return base == nullptr ? nullptr : base + row * d;
}

/// What forward and backward both need of a row, in scratch: x̃, x̂, y', ŷ, u.
template <class C>
struct Row {
  C *x, *x_hat, *y_hat, *u;
  Stats<C> sx, sy;
};

template <class S, class Z, class C>
Row<C> read_row(const StreamStep<S, Z>& p, int64_t row, C* scratch, S* x_out, S* y_out) {
  const int64_t d = p.d;
  const C eps = static_cast<C>(p.eps);
  Row<C> t{scratch, scratch + d, scratch + 2 * d, scratch + 3 * d, {}, {}};
  const Z* r = row_of(p.r, row, d);
  bool filled = false;
  if (p.x != nullptr) {
    written(p.x + row * d, r, static_cast<C>(p.a), d, t.x);
    if (p.norm_x) {
      t.sx = normalise(t.x, d, p.layer, eps, t.x_hat);
      affine<false>(t.x_hat, p.gain_x, p.bias_x, d, t.u);  // u = X
      if (x_out != nullptr) save(t.u, d, x_out);
    } else {
      if (x_out != nullptr) save(t.x, d, x_out);
      if (p.c1 != nullptr) {
        affine<false>(t.x, p.c1, static_cast<const Z*>(nullptr), d, t.u);  // u = c1⊙x̃
      } else {
        affine<false>(t.x, static_cast<const Z*>(nullptr), static_cast<const Z*>(nullptr), d, t.u);
      }
    }
    filled = true;
  }
  if (p.y != nullptr) {
    C* y = t.y_hat;  // normalised in place
    written(p.y + row * d, r, C(1), d, y);
    if (y_out != nullptr) save(y, d, y_out);
    if (p.norm_y) t.sy = normalise(y, d, p.layer, eps, y);
    if (filled) {
      affine<true>(t.y_hat, p.gain_y, p.bias_y, d, t.u);
    } else {
      affine<false>(t.y_hat, p.gain_y, p.bias_y, d, t.u);
    }
  }
  return t;
}

template <class S, class Z, class C>
void forward(const StreamStep<S, Z>& p, int64_t begin, int64_t end, C* scratch) {
  const int64_t d = p.d;
  for (int64_t row = begin; row < end; ++row) {
    const Row<C> t = read_row(p, row, scratch, row_of(p.x_out, row, d), row_of(p.y_out, row, d));
    if (p.norm_in) {
      C* hat = scratch + 4 * d;
      normalise(t.u, d, p.layer, static_cast<C>(p.eps), hat);
      affine<false>(hat, p.gain_in, p.bias_in, d, t.u);
    }
    if (p.z != nullptr) save(t.u, d, p.z + row * d);
  }
}

template <class S, class Z, class C>
void backward(const StreamStep<S, Z>& p, int64_t begin, int64_t end, C* scratch, C* columns) {
  const int64_t d = p.d;
  C *g = scratch + 4 * d, *gx = scratch + 5 * d, *gy = scratch + 6 * d, *in_hat = scratch + 7 * d;
  auto column = [&](Column c) { return columns + static_cast<int64_t>(c) * d; };
  auto load_row = [d](const auto* from, int64_t row, C* to) {
    if (from == nullptr) {
      for (int64_t i = 0; i < d; ++i) to[i] = 0;
    } else {
      from += row * d;
#pragma omp simd
      for (int64_t i = 0; i < d; ++i) to[i] = load<C>(from[i]);
    }
  };
  for (int64_t row = begin; row < end; ++row) {
    const Row<C> t = read_row(p, row, scratch, static_cast<S*>(nullptr), static_cast<S*>(nullptr));
    load_row(p.g_z, row, g);
    if (p.norm_in) {
      const Stats<C> s = normalise(t.u, d, p.layer, static_cast<C>(p.eps), in_hat);
      norm_backward(s, in_hat, p.gain_in, p.bias_in != nullptr, p.layer, d, g, column(kGainIn), column(kBiasIn));
    }
    if (p.x != nullptr) {
      load_row(p.g_x_out, row, gx);
      if (p.c1 != nullptr) {
        C* d_c1 = column(kC1);
#pragma omp simd
        for (int64_t i = 0; i < d; ++i) {
          d_c1[i] += g[i] * t.x[i];
          gx[i] += load<C>(p.c1[i]) * g[i];
        }
      } else {
#pragma omp simd
        for (int64_t i = 0; i < d; ++i) gx[i] += g[i];
      }
      if (p.norm_x)
        norm_backward(t.sx, t.x_hat, p.gain_x, p.bias_x != nullptr, p.layer, d, gx, column(kGainX), column(kBiasX));
      if (p.g_x != nullptr) save(gx, d, p.g_x + row * d);
    }
    if (p.y != nullptr) {
      if (p.norm_y)
        norm_backward(t.sy, t.y_hat, p.gain_y, p.bias_y != nullptr, p.layer, d, g, column(kGainY), column(kBiasY));
      load_row(p.g_y_out, row, gy);
#pragma omp simd
      for (int64_t i = 0; i < d; ++i) gy[i] += g[i];
      if (p.g_y != nullptr) save(gy, d, p.g_y + row * d);
    }
    if (p.g_r != nullptr) {
      const C a = static_cast<C>(p.a);
      Z* out = p.g_r + row * d;
      if (p.x != nullptr && p.y != nullptr) {
#pragma omp simd
        for (int64_t i = 0; i < d; ++i) out[i] = store<Z>(a * gx[i] + gy[i]);
      } else if (p.x != nullptr) {
#pragma omp simd
        for (int64_t i = 0; i < d; ++i) out[i] = store<Z>(a * gx[i]);
      } else {
        save(gy, d, out);
      }
    }
  }
}

template void forward(const StreamStep<float, float>&, int64_t, int64_t, float*);
template void forward(const StreamStep<double, double>&, int64_t, int64_t, double*);
template void forward(const StreamStep<bf16, bf16>&, int64_t, int64_t, float*);
template void forward(const StreamStep<float, bf16>&, int64_t, int64_t, float*);
template void backward(const StreamStep<float, float>&, int64_t, int64_t, float*, float*);
template void backward(const StreamStep<double, double>&, int64_t, int64_t, double*, double*);
template void backward(const StreamStep<bf16, bf16>&, int64_t, int64_t, float*, float*);
template void backward(const StreamStep<float, bf16>&, int64_t, int64_t, float*, float*);

}  // namespace siamese::kernels::SIAMESE_SIMD
