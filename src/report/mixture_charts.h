// The part of a report that only mixtures of experts have.
#pragma once

#include <string>
#include <vector>

#include "report/chart.h"
#include "report/report.h"

namespace siamese {

/// Charts of balance loss, entropy, dropped share, the least and the most busy expert and dead ones, then the load of
/// every expert; "" where no run has experts.
std::string render_mixtures(const std::vector<RunCurves>& runs);

/// One curve of every run; a run keeps its colour in every chart, also where another run has no such curve.
std::vector<Series> series_of(const std::vector<RunCurves>& runs, Curve RunCurves::*curve);

}  // namespace siamese
