// How far apart two sets of pictures are, judged by features [N, D] of a classifier. Only numbers from the same
// features compare.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace siamese {

struct SetDistance {
  double frechet = 0;                 // |μa - μb|² + tr(Σa + Σb - 2(ΣaΣb)^½)
  double kid = 0, kid_deviation = 0;  // mean over subsets of the unbiased MMD² with k(x, y) = (x·y/D + 1)³
  double precision = 0, recall = 0;   // share of b inside a's neighbourhoods, and the reverse
};

struct DistanceOptions {
  int64_t subsets = 100, subset_size = 1000;  // KID; a subset is never larger than the smaller set
  int64_t neighbours = 3;                     // precision and recall: radius to the k-th neighbour
  int64_t seed = 1;
};

/// `a` real, `b` generated. Two pictures or more each; in fp64.
SetDistance distance_between(const at::Tensor& a, const at::Tensor& b, const DistanceOptions& options = {});

double frechet_distance(const at::Tensor& a, const at::Tensor& b);
/// Unbiased MMD² of two equally large sets.
double kernel_distance(const at::Tensor& a, const at::Tensor& b);
/// Share of `b` that lies within the distance of some point of `a` to its k-th neighbour among `a`.
double covered(const at::Tensor& a, const at::Tensor& b, int64_t neighbours);

}  // namespace siamese
