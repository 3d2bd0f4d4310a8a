#include "report/axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace siamese {
namespace {

constexpr size_t kLogTicksWanted = 4, kLogTicksMost = 7;

double nice_step(double rough) {
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  const double mantissa = rough / power;
  return power * (mantissa < 1.5 ? 1 : mantissa < 3.5 ? 2 : mantissa < 7.5 ? 5 : 10);
}

int exponent_of(double size) { return static_cast<int>(std::floor(std::log10(size) + 1e-9)); }

int decimals_for(double step) { return std::clamp(static_cast<int>(std::ceil(-std::log10(step) - 1e-9)), 0, 9); }

// The exponent as people write it: 3e-4, not 3e-04.
std::string scientific(double value, double step, int exponent) {
  const double unit = std::pow(10.0, exponent);
  return fmt::format("{:.{}f}e{}", value / unit, decimals_for(step / unit), exponent);
}

// All ticks of an axis share unit and decimals, which `largest` and `step` decide.
std::string tick_label(double value, double step, double largest) {
  if (value == 0) return "0";
  if (largest >= 1e10 || largest < 1e-2) {
    return scientific(value, step, exponent_of(largest));
  }
  if (largest >= 1e6) return fmt::format("{:.{}f}M", value / 1e6, decimals_for(step / 1e6));
  if (largest >= 1e4) return fmt::format("{:.{}f}k", value / 1e3, decimals_for(step / 1e3));
  if (step >= 1) return format_grouped(value);
  return fmt::format("{:.{}f}", value, decimals_for(step));
}

std::string log_label(double value) {
  if (value >= 1e6 || value < 0.999e-3) return scientific(value, value, exponent_of(value));
  return value >= 1e4 ? fmt::format("{:.0f}k", value / 1e3) : fmt::format("{:.4g}", value);
}

// Ticks at the mantissas given, in every decade of the range.
std::vector<Tick> decades(Range range, const std::vector<double>& mantissas) {
  std::vector<Tick> ticks;
  for (double k = std::floor(range.low); k <= range.high; ++k) {
    for (const double mantissa : mantissas) {
      const double at = k + std::log10(mantissa);
      if (at < range.low || at > range.high) continue;
      ticks.push_back({at, log_label(mantissa * std::pow(10.0, k))});
    }
  }
  return ticks;
}

}  // namespace

std::vector<double> nice_ticks(Range range, int wanted) {
  const double step = nice_step((range.high - range.low) / std::max(wanted, 1));
  // A hair of tolerance, so that a range ending exactly on a tick keeps it.
  const double first = std::ceil(range.low / step - 1e-6), last = std::floor(range.high / step + 1e-6);
  std::vector<double> ticks;
  for (double i = 0; i <= last - first; ++i) ticks.push_back((first + i) * step);
  return ticks;
}

std::vector<Tick> linear_axis(Range range, int wanted) {
  const std::vector<double> values = nice_ticks(range, wanted);
  if (values.empty()) return {};
  const double step = values.size() > 1 ? values[1] - values[0] : range.high - range.low;
  const double largest = std::max(std::abs(values.front()), std::abs(values.back()));
  std::vector<Tick> ticks;
  for (const double value : values) ticks.push_back({value, tick_label(value, step, largest)});
  return ticks;
}

std::vector<Tick> log_axis(Range range) {
  std::vector<Tick> ticks = decades(range, {1});
  if (ticks.size() > kLogTicksMost) {
    const size_t stride = (ticks.size() + kLogTicksMost - 1) / kLogTicksMost;
    std::vector<Tick> thin;
    for (size_t i = 0; i < ticks.size(); i += stride) thin.push_back(std::move(ticks[i]));
    return thin;
  }
  if (ticks.size() < kLogTicksWanted) ticks = decades(range, {1, 2, 5});
  if (ticks.size() >= 2) return ticks;
  // Less than one decade: evenly spaced values say more than a single power of ten.
  ticks = linear_axis({std::pow(10.0, range.low), std::pow(10.0, range.high)}, 4);
  for (Tick& tick : ticks) tick.at = std::log10(tick.at);
  return ticks;
}

std::string format_value(double value) {
  if (value == 0) return "0";
  const int exponent = exponent_of(std::abs(value));
  if (exponent >= 4 && exponent < 9) return format_grouped(value);
  if (exponent >= -2 && exponent < 4) return fmt::format("{:.{}f}", value, 3 - exponent);
  return fmt::format("{:.4g}e{}", value / std::pow(10.0, exponent), exponent);
}

std::string format_grouped(double whole) {
  std::string digits = fmt::format("{:.0f}", std::abs(whole));
  for (size_t left = digits.size(); left > 3;) digits.insert(left -= 3, ",");
  return whole < 0 ? "-" + digits : digits;
}

}  // namespace siamese
