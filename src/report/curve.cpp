#include "report/curve.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace siamese {
namespace {

constexpr double kGap = std::numeric_limits<double>::quiet_NaN();
constexpr double kLargest = 1e100;       // beyond, differences and squares of coordinates overflow
constexpr double kUsualShare = 0.92;     // of a run's values are what it usually looks like
constexpr double kSpreadsAllowed = 3.0;  // above the calmest run's top
constexpr double kHeadroom = 0.25;       // spreads above the lowest value of a clipped run

bool drawable(double value) { return std::isfinite(value) && std::abs(value) < kLargest; }

// Splits [0, size) into `buckets` nearly equal parts and calls visit(begin, end) for each.
template <class Visit>
void for_buckets(size_t size, size_t buckets, Visit visit) {
  for (size_t b = 0; b < buckets; ++b) visit(size * b / buckets, size * (b + 1) / buckets);
}

struct Extent {
  double low, top;
};

// A run's lowest value, and its highest unless that is an extreme.
std::optional<Extent> extent(const Curve& curve, bool clip, double tolerance) {
  std::vector<double> values;
  for (const auto& [step, value] : curve) {
    if (std::isfinite(value)) values.push_back(value);
  }
  if (values.empty()) return std::nullopt;
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  Extent result{*low, *high};
  if (!clip) return result;
  const auto rank = static_cast<size_t>(std::ceil(kUsualShare * static_cast<double>(values.size()))) - 1;
  const auto usual = values.begin() + static_cast<std::ptrdiff_t>(rank);
  std::nth_element(values.begin(), usual, values.end());
  if (result.top - *usual > tolerance * (*usual - result.low)) result.top = *usual;
  return result;
}

}  // namespace

Curve to_axis_space(const Curve& curve, bool log) {
  Curve result;
  result.reserve(curve.size());
  for (const auto& [step, value] : curve) {
    if (!drawable(step)) continue;
    const bool good = drawable(value) && (!log || value > 1 / kLargest);
    result.emplace_back(step, !good ? kGap : log ? std::log10(value) : value);
  }
  return result;
}

Curve envelope(const Curve& curve, size_t limit) {
  if (curve.size() <= limit) return curve;
  Curve result;
  for_buckets(curve.size(), limit / 2, [&](size_t begin, size_t end) {
    size_t low = end, high = end;
    for (size_t i = begin; i < end; ++i) {
      if (!std::isfinite(curve[i].second)) continue;
      if (low == end || curve[i].second < curve[low].second) low = i;
      if (high == end || curve[i].second > curve[high].second) high = i;
    }
    if (low == end) {
      result.emplace_back(curve[begin].first, kGap);
      return;
    }
    result.push_back(curve[std::min(low, high)]);
    if (low != high) result.push_back(curve[std::max(low, high)]);
  });
  return result;
}

Curve smoothed(const Curve& curve, double window, size_t limit) {
  Curve means;
  for_buckets(curve.size(), std::min(curve.size(), limit), [&](size_t begin, size_t end) {
    double steps = 0, values = 0, count = 0;
    for (size_t i = begin; i < end; ++i) {
      if (!std::isfinite(curve[i].second)) continue;
      steps += curve[i].first;
      values += curve[i].second;
      ++count;
    }
    if (count > 0) {
      means.emplace_back(steps / count, values / count);
    } else {
      means.emplace_back(curve[begin].first, kGap);
    }
  });
  const auto reach = static_cast<size_t>(window * static_cast<double>(means.size()) / 2);
  Curve result = means;
  for (size_t i = 0; i < means.size(); ++i) {
    if (!std::isfinite(means[i].second)) continue;
    // Symmetric at the start, where a one-sided mean would lie far below a steeply falling loss; at the end the curve
    // is flat, and a mean over the last stretch is what one wants to read there.
    const size_t side = std::min(reach, i);
    double sum = 0, weights = 0;
    for (size_t j = i - side; j <= std::min(i + side, means.size() - 1); ++j) {
      if (!std::isfinite(means[j].second)) continue;
      const auto weight = static_cast<double>(side + 1 - (j > i ? j - i : i - j));
      sum += weight * means[j].second;
      weights += weight;
    }
    result[i].second = sum / weights;
  }
  return result;
}

std::optional<Range> value_range(const std::vector<Curve>& curves, bool clip, double tolerance) {
  std::vector<Extent> extents;
  for (const Curve& curve : curves) {
    if (const auto one = extent(curve, clip, tolerance)) extents.push_back(*one);
  }
  if (extents.empty()) return std::nullopt;
  std::sort(extents.begin(), extents.end(), [](const Extent& a, const Extent& b) { return a.top < b.top; });
  Range range{extents[0].low, extents.back().top};
  for (const Extent& one : extents) range.low = std::min(range.low, one.low);
  if (!clip) return range;
  // The calmest quarter sets the scale: three of four runs may diverge and the fourth is still readable.
  const double calm = extents[(extents.size() - 1) / 4].top;
  const double spread = calm - range.low;
  range.high = calm;
  for (const Extent& one : extents) {
    const bool wild = one.top > calm + kSpreadsAllowed * spread;
    range.high = std::max(range.high, wild ? std::min(one.top, one.low + kHeadroom * spread) : one.top);
  }
  return range;
}

std::vector<size_t> exits(const Curve& curve, double top) {
  std::vector<size_t> result;
  for (size_t i = 1; i < curve.size(); ++i) {
    if (curve[i - 1].second <= top && curve[i].second > top) result.push_back(i);
  }
  return result;
}

std::optional<double> lost_at(const Curve& curve) {
  std::optional<double> step;
  for (auto point = curve.rbegin(); point != curve.rend() && !std::isfinite(point->second); ++point) {
    step = point->first;
  }
  return step;
}

}  // namespace siamese
