#include "report/heatmap.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/markup.h"

namespace siamese {
namespace {

constexpr double kWidth = 640, kLeft = 64, kTop = 22, kRow = 20;
constexpr size_t kNumbered = 16;  // that many columns have room for numbers

/// From red (nothing) over white (the mean) to blue (twice the mean and more).
std::string colour(double share) {
  const double distance = std::min(1.0, std::abs(share - 1));
  const int faded = static_cast<int>(std::lround(255 - 175 * distance));
  return share < 1 ? fmt::format("#ff{0:02x}{0:02x}", faded) : fmt::format("#{0:02x}{0:02x}ff", faded);
}

}  // namespace

std::string render_heatmap(const ExpertHeat& heat, const std::string& label) {
  if (heat.loads.empty()) return {};
  const size_t experts = heat.loads[0].size();
  const double cell = (kWidth - kLeft) / static_cast<double>(experts),
               height = kTop + kRow * static_cast<double>(heat.loads.size());
  double least = INFINITY, most = 0;
  std::string cells;
  for (size_t row = 0; row < heat.loads.size(); ++row) {
    double sum = 0;
    for (const double load : heat.loads[row]) sum += load;
    const double mean = sum / static_cast<double>(experts), y = kTop + kRow * static_cast<double>(row);
    cells += fmt::format("<text x=\"{:g}\" y=\"{:g}\" text-anchor=\"end\">block {}</text>\n", kLeft - 6, y + 14,
                         heat.blocks[row]);
    for (size_t e = 0; e < experts; ++e) {
      const double share = mean > 0 ? heat.loads[row][e] / mean : 0, x = kLeft + cell * static_cast<double>(e);
      least = std::min(least, share), most = std::max(most, share);
      cells += fmt::format(
          "<rect x=\"{:.2f}\" y=\"{:g}\" width=\"{:.2f}\" height=\"{:g}\" fill=\"{}\"><title>block {}, expert {}: "
          "{:.0f} "
          "tokens, {:.2f} of the mean</title></rect>",
          x, y, cell, kRow, colour(share), heat.blocks[row], e, heat.loads[row][e], share);
      if (experts <= kNumbered)
        cells += fmt::format("<text x=\"{:.2f}\" y=\"{:g}\" text-anchor=\"middle\" style=\"fill:#000\">{:.2f}</text>",
                             x + cell / 2, y + 14, share);
    }
    cells += "\n";
  }
  return fmt::format(
      "<figure>\n<figcaption><h3>Load of the experts: {}</h3> <span>steps {:.0f} to {:.0f}; 1 is the mean of a block, "
      "least {:.2f}, most {:.2f}</span></figcaption>\n<svg class=\"heat\" viewBox=\"0 0 {:g} {:g}\" role=\"img\" "
      "aria-label=\"tokens of each expert against the mean of its block, from {:.2f} to {:.2f}\" "
      "style=\"font-size:11px\">\n<text x=\"{:g}\" y=\"14\">expert 0 … {}</text>\n{}</svg>\n</figure>\n",
      escape_markup(label), heat.step - heat.steps + 1, heat.step, least, most, kWidth, height, least, most, kLeft,
      experts - 1, cells);
}

}  // namespace siamese
