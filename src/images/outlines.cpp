#include "images/outlines.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <span>

namespace siamese {
namespace {

struct Point {
  double x, y;
};

/// Distance to the nearest edge; inside is where a ray to the right crosses the outline an odd number of times.
double polygon(std::span<const Point> corners, double x, double y) {
  double nearest = std::numeric_limits<double>::max();
  bool inside = false;
  for (size_t i = 0, j = corners.size() - 1; i < corners.size(); j = i++) {
    const Point a = corners[i], b = corners[j];
    const double ex = b.x - a.x, ey = b.y - a.y, wx = x - a.x, wy = y - a.y;
    const double along = std::clamp((wx * ex + wy * ey) / (ex * ex + ey * ey), 0.0, 1.0);
    const double dx = wx - ex * along, dy = wy - ey * along;
    nearest = std::min(nearest, dx * dx + dy * dy);
    if ((a.y > y) != (b.y > y) && x < a.x + ex * (y - a.y) / ey) inside = !inside;
  }
  return inside ? -std::sqrt(nearest) : std::sqrt(nearest);
}

/// Corners on a circle, every second one on another.
template <size_t N>
std::array<Point, N> spokes(double radius, double second) {
  std::array<Point, N> corners;
  for (size_t i = 0; i < N; ++i) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(i) / N - std::numbers::pi / 2;
    const double r = i % 2 == 0 ? radius : second;
    corners[i] = {r * std::cos(angle), r * std::sin(angle)};
  }
  return corners;
}

double circle(double x, double y) { return std::hypot(x, y) - 0.86; }

double square(double x, double y) {
  static const auto corners = spokes<4>(0.98, 0.98);
  return polygon(corners, x, y);
}

double triangle(double x, double y) {
  static const auto corners = spokes<3>(1.0, 1.0);
  return polygon(corners, x, y);
}

double star(double x, double y) {
  static const auto corners = spokes<10>(1.0, 0.45);
  return polygon(corners, x, y);
}

double ring(double x, double y) { return std::abs(std::hypot(x, y) - 0.68) - 0.2; }

double cross(double x, double y) {
  constexpr double a = 0.27, b = 0.92;  // half the width and the length of an arm
  static constexpr std::array<Point, 12> corners = {
      {{-a, -b}, {a, -b}, {a, -a}, {b, -a}, {b, a}, {a, a}, {a, b}, {-a, b}, {-a, a}, {-b, a}, {-b, -a}, {-a, -a}}};
  return polygon(corners, x, y);
}

double hexagon(double x, double y) {
  static const auto corners = spokes<6>(0.95, 0.95);
  return polygon(corners, x, y);
}

double crescent(double x, double y) { return std::max(std::hypot(x, y) - 0.92, 0.76 - std::hypot(x - 0.45, y)); }

// Two quarters of circles above a corner of 90°; |x| takes care of the left half. On the square of side 1/√2 that
// stands on its corner at 0.
double heart(double x, double y) {
  constexpr double kScale = 1.58, kDown = 0.56;
  const double u = std::abs(x) / kScale, v = -y / kScale + kDown;
  if (u + v > 1) return kScale * (std::hypot(u - 0.25, v - 0.75) - std::numbers::sqrt2 / 4);
  const double side = 0.5 * std::max(u + v, 0.0);
  const double distance = std::min(std::hypot(u, v - 1), std::hypot(u - side, v - side));
  return kScale * (u > v ? distance : -distance);
}

double arrow(double x, double y) {
  static constexpr std::array<Point, 7> corners = {
      {{0.98, 0}, {0.1, -0.72}, {0.1, -0.27}, {-0.9, -0.27}, {-0.9, 0.27}, {0.1, 0.27}, {0.1, 0.72}}};
  return polygon(corners, x, y);
}

struct Outline {
  const char* name;
  double (*distance)(double, double);
};

constexpr std::array<Outline, kOutlines> kTable = {{{"circle", circle},
                                                    {"square", square},
                                                    {"triangle", triangle},
                                                    {"star", star},
                                                    {"ring", ring},
                                                    {"cross", cross},
                                                    {"hexagon", hexagon},
                                                    {"crescent", crescent},
                                                    {"heart", heart},
                                                    {"arrow", arrow}}};

}  // namespace

const std::vector<std::string>& outline_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Outline& outline : kTable) all.emplace_back(outline.name);
    return all;
  }();
  return names;
}

double outline_distance(int label, double x, double y) { return kTable[static_cast<size_t>(label)].distance(x, y); }

}  // namespace siamese
