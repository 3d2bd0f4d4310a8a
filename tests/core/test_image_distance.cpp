// Distances between sets of pictures, on features whose answer is known.
#include "train/image_distance.h"

#include <cmath>

#include "gradcheck.h"
#include "util/error.h"

namespace siamese {
namespace {

/// For Gaussians with diagonal covariances: Σ (μa-μb)² + (σa-σb)².
TEST(ImageDistance, FrechetOfGaussians) {
  const at::Tensor a = random_normal({20000, 3}, 1), unit = random_normal({20000, 3}, 2);
  const at::Tensor scale = at::tensor({2.0, 0.5, 1.0}, at::kDouble), shift = at::tensor({1.0, 0.0, -2.0}, at::kDouble);
  EXPECT_NEAR(frechet_distance(a, unit * scale + shift), 1 + 4 + 1 + 0.25, 0.15);
  EXPECT_NEAR(frechet_distance(a, a), 0, 1e-9);
}

/// The covariances' root is a matrix's, not its elements': two correlated Gaussians in closed form.
TEST(ImageDistance, FrechetWithCorrelation) {
  // Exact moments: whitened draws, then Σ = L·Lᵀ with eigenvectors turned by 45 degrees.
  at::Tensor x = random_normal({5000, 2}, 3);
  x = x - x.mean(0);
  const auto [values, vectors] = at::linalg_eigh(at::matmul(x.t(), x) / 4999.0);
  x = at::matmul(x, vectors) / values.sqrt();
  const double r = std::sqrt(0.5);
  const at::Tensor turn = at::tensor({r, r, -r, r}, at::kDouble).view({2, 2});
  const at::Tensor a = x * at::tensor({3.0, 1.0}, at::kDouble);  // Σ = diag(9, 1)
  const at::Tensor b = at::matmul(a, turn);                      // the same, turned
  // tr (ΣaΣb)^½ for Σb = RᵀΣaR: eigenvalues of ΣaΣb by hand: trace 2·(9·5+1·5)/2 = 50, determinant 81.
  const double low = std::sqrt(25 - std::sqrt(625 - 81.0)), high = std::sqrt(25 + std::sqrt(625 - 81.0));
  EXPECT_NEAR(frechet_distance(a, b), 10 + 10 - 2 * (low + high), 1e-9);
}

TEST(ImageDistance, KernelDistanceIsUnbiased) {
  // Of the same distribution: zero on average, above and below.
  double sum = 0;
  int below = 0;
  for (int64_t i = 0; i < 40; ++i) {
    const double d = kernel_distance(random_normal({50, 4}, 100 + i), random_normal({50, 4}, 200 + i));
    sum += d, below += d < 0;
  }
  EXPECT_NEAR(sum / 40, 0, 0.1);  // with the diagonals it would be 0.4
  EXPECT_GT(below, 5);
  EXPECT_LT(below, 35);
  // By hand: a = {0, 1}, b = {2, 2} in one dimension, k = (xy + 1)³.
  const at::Tensor a = at::tensor({0.0, 1.0}, at::kDouble).view({2, 1}), b = at::full({2, 1}, 2.0, at::kDouble);
  EXPECT_DOUBLE_EQ(kernel_distance(a, b), 1.0 + 125.0 - 2 * (1.0 + 27.0) / 2);
}

TEST(ImageDistance, PrecisionAndRecallSeeWhatIsMissing) {
  const at::Tensor all = random_normal({400, 2}, 5), half = all.slice(0, 0, 200) * at::tensor({1.0, 0.0}, at::kDouble);
  EXPECT_EQ(covered(all, all, 3), 1.0);
  // Points on a line: the real ones cover them, they do not cover the real ones.
  EXPECT_GT(covered(all, half, 3), 0.9);
  EXPECT_LT(covered(half, all, 3), 0.5);
  EXPECT_EQ(covered(all, all + 100, 3), 0.0);
}

TEST(ImageDistance, SameSetsSameSeedSameNumbers) {
  const at::Tensor a = random_normal({300, 5}, 7), b = random_normal({200, 5}, 8) + 0.5;
  DistanceOptions o;
  o.subsets = 10, o.subset_size = 100;
  const SetDistance one = distance_between(a, b, o), two = distance_between(a, b, o);
  EXPECT_EQ(one.kid, two.kid);
  EXPECT_GT(one.kid, 3 * one.kid_deviation);
  EXPECT_GT(one.frechet, 1.0);
}

TEST(ImageDistance, Refuses) {
  EXPECT_THROW(distance_between(at::zeros({1, 3}), at::zeros({5, 3})), Error);
  EXPECT_THROW(distance_between(at::zeros({5, 2}), at::zeros({5, 3})), Error);
  EXPECT_THROW(distance_between(at::full({5, 3}, NAN), at::zeros({5, 3})), Error);
}

}  // namespace
}  // namespace siamese
