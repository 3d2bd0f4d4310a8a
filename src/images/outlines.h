// The outlines of the drawn shapes as signed distances: how far a point lies outside (positive) or inside (negative).
#pragma once

#include <string>
#include <vector>

namespace siamese {

inline constexpr int kOutlines = 10;

/// Names in the order of labels.
const std::vector<std::string>& outline_names();

/// Of the outline with this label, which lies inside the circle of radius 1 around 0 and fills most of it.
double outline_distance(int label, double x, double y);

}  // namespace siamese
