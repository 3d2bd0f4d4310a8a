// Random fills on raw pointers: each value is a pure function of (seed, step, site, element), see util/philox.h.
#pragma once

#include <cmath>
#include <cstdint>

#include "util/philox.h"

namespace siamese::kernels {

/// Inverse of the normal distribution function for 0 < p < 1 (Wichura's AS 241, about 1e-16), in fp64 with plain
/// products and sums, so that CPU and GPU agree after rounding to fp32.
SIAMESE_HD double normal_quantile(double p) {
  const double q = p - 0.5;
  if (q >= -0.425 && q <= 0.425) {
    const double r = 0.180625 - q * q;
    const double top = (((((((2509.0809287301226727 * r + 33430.575583588128105) * r + 67265.770927008700853) * r +
                            45921.953931549871457) *
                               r +
                           13731.693765509461125) *
                              r +
                          1971.5909503065514427) *
                             r +
                         133.14166789178437745) *
                            r +
                        3.387132872796366608);
    const double bottom = (((((((5226.495278852545925 * r + 28729.085735721942674) * r + 39307.89580009271061) * r +
                               21213.794301586595867) *
                                  r +
                              5394.1960214247511077) *
                                 r +
                             687.1870074920579083) *
                                r +
                            42.313330701600911252) *
                               r +
                           1.0);
    return q * top / bottom;
  }
  double r = sqrt(-log(q < 0 ? p : 1.0 - p));
  double value;
  if (r <= 5.0) {
    r -= 1.6;
    const double top =
        (((((((7.7454501427834140764e-4 * r + 0.0227238449892691845833) * r + 0.24178072517745061177) * r +
             1.27045825245236838258) *
                r +
            3.64784832476320460504) *
               r +
           5.7694972214606914055) *
              r +
          4.6303378461565452959) *
             r +
         1.42343711074968357734);
    const double bottom =
        (((((((1.05075007164441684324e-9 * r + 5.475938084995344946e-4) * r + 0.0151986665636164571966) * r +
             0.14810397642748007459) *
                r +
            0.68976733498510000455) *
               r +
           1.6763848301838038494) *
              r +
          2.05319162663775882187) *
             r +
         1.0);
    value = top / bottom;
  } else {
    r -= 5.0;
    const double top =
        (((((((2.01033439929228813265e-7 * r + 2.71155556874348757815e-5) * r + 0.0012426609473880784386) * r +
             0.026532189526576123093) *
                r +
            0.29656057182850489123) *
               r +
           1.7848265399172913358) *
              r +
          5.4637849111641143699) *
             r +
         6.6579046435011037772);
    const double bottom =
        (((((((2.04426310338993978564e-15 * r + 1.4215117583164458887e-7) * r + 1.8463183175100546818e-5) * r +
             7.868691311456132591e-4) *
                r +
            0.0148753612908506148525) *
               r +
           0.13692988092273580531) *
              r +
          0.59983220655588793769) *
             r +
         1.0);
    value = top / bottom;
  }
  return q < 0 ? -value : value;
}

/// Normal with standard deviation `std`, truncated at ±cutoff·std without rejection: p is uniform between the
/// distribution function's values at the two ends. cutoff 0: not truncated.
SIAMESE_HD double truncated_normal(uint32_t word, double std, double cutoff) {
  double low = 0.0;
  if (cutoff > 0) low = 0.5 * erfc(cutoff * 0.70710678118654752440);
  const double p = low + (1.0 - 2.0 * low) * uniform_open(word);
  return std * normal_quantile(p);
}

/// Inverted dropout: 0 with probability p, else 1/(1-p). Element numbers are global, so ranks and micro-batches agree.
SIAMESE_HD float dropout_factor(uint32_t word, float p) { return uniform24(word) < p ? 0.0f : 1.0f / (1.0f - p); }

}  // namespace siamese::kernels
