#include "train/image_distance.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "data/permutation.h"
#include "util/error.h"
#include "util/philox.h"

namespace siamese {
namespace {

constexpr int64_t kRows = 1024;  // of a matrix of distances at a time

at::Tensor covariance(const at::Tensor& x, const at::Tensor& mean) {
  const at::Tensor c = x - mean;
  return at::matmul(c.t(), c) / static_cast<double>(std::max<int64_t>(1, x.size(0) - 1));
}

/// `count` rows of x, drawn without repetition.
at::Tensor drawn(const at::Tensor& x, int64_t count, int64_t seed, int64_t number, uint32_t use) {
  const RandomKey key(static_cast<uint64_t>(seed), static_cast<uint64_t>(number), site_at(kSampling, use));
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < count; ++i)
    rows.push_back(static_cast<int64_t>(permute(static_cast<uint64_t>(i), static_cast<uint64_t>(x.size(0)), key)));
  return x.index_select(0, at::tensor(rows, at::kLong).to(x.device()));
}

void check(const at::Tensor& a, const at::Tensor& b) {
  if (a.dim() != 2 || b.dim() != 2 || a.size(1) != b.size(1)) fail("features of both sets must be [N, D] with one D");
  if (a.size(0) < 2 || b.size(0) < 2) fail("sets of {} and {} pictures are too small to compare", a.size(0), b.size(0));
  if (!at::isfinite(a).all().item<bool>() || !at::isfinite(b).all().item<bool>())
    fail("features hold values that are not finite");
}

}  // namespace

// tr (ΣaΣb)^½ = Σ sqrt of the eigenvalues of Σa^½ Σb Σa^½, which is symmetric. Rounding may make zeros negative,
// those and the distance of a set to itself.
double frechet_distance(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor ma = a.mean(0), mb = b.mean(0), sa = covariance(a, ma), sb = covariance(b, mb);
  const auto [values, vectors] = at::linalg_eigh(sa);
  const at::Tensor root = at::matmul(vectors * values.clamp_min(0).sqrt(), vectors.t());
  const at::Tensor product = at::matmul(at::matmul(root, sb), root);
  const at::Tensor shared = at::linalg_eigvalsh((product + product.t()) / 2).clamp_min(0).sqrt().sum();
  return ((ma - mb).square().sum() + sa.trace() + sb.trace() - 2 * shared).clamp_min(0).item<double>();
}

double kernel_distance(const at::Tensor& a, const at::Tensor& b) {
  const double d = static_cast<double>(a.size(1)), n = static_cast<double>(a.size(0));
  auto kernel = [&](const at::Tensor& x, const at::Tensor& y) { return (at::matmul(x, y.t()) / d + 1).pow(3); };
  auto within = [&](const at::Tensor& x) {
    const at::Tensor k = kernel(x, x);
    return (k.sum() - k.diagonal().sum()) / (n * (n - 1));
  };
  return (within(a) + within(b) - 2 * kernel(a, b).mean()).item<double>();
}

double covered(const at::Tensor& a, const at::Tensor& b, int64_t neighbours) {
  const int64_t k = std::min(neighbours + 1, a.size(0));  // a point is its own first neighbour
  std::vector<at::Tensor> radii;
  for (const at::Tensor& rows : a.split(kRows))
    radii.push_back(std::get<0>(at::cdist(rows, a).topk(k, 1, /*largest=*/false)).select(1, k - 1));
  const at::Tensor radius = at::cat(radii);
  int64_t inside = 0;
  for (const at::Tensor& rows : b.split(kRows))
    inside += (at::cdist(rows, a) <= radius.unsqueeze(0)).any(1).sum().item<int64_t>();
  return static_cast<double>(inside) / static_cast<double>(b.size(0));
}

SetDistance distance_between(const at::Tensor& first, const at::Tensor& second, const DistanceOptions& o) {
  const at::NoGradGuard no_grad;
  check(first, second);
  const at::Tensor a = first.to(at::kDouble), b = second.to(at::kDouble);
  SetDistance found;
  found.frechet = frechet_distance(a, b);
  const int64_t size = std::min({o.subset_size, a.size(0), b.size(0)});
  std::vector<double> all;
  for (int64_t i = 0; i < o.subsets; ++i)
    all.push_back(kernel_distance(drawn(a, size, o.seed, i, 0), drawn(b, size, o.seed, i, 1)));
  double sum = 0, squares = 0;
  for (const double v : all) sum += v;
  found.kid = sum / static_cast<double>(all.size());
  for (const double v : all) squares += (v - found.kid) * (v - found.kid);
  found.kid_deviation = std::sqrt(squares / static_cast<double>(all.size()));
  found.precision = covered(a, b, o.neighbours);
  found.recall = covered(b, a, o.neighbours);
  return found;
}

}  // namespace siamese
