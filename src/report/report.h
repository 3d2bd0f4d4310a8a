// Runs as pictures: one self-contained HTML page (inline SVG, no network, no script needed to read it).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace siamese {

/// Tokens that went to each expert of each mixture, of the last such line of a run: the last `steps` steps up to
/// `step`.
struct ExpertHeat {
  double step = 0, steps = 0;
  std::vector<int64_t> blocks;             // names of the rows
  std::vector<std::vector<double>> loads;  // [mixture][expert]
};

/// One run folder's `metrics.jsonl`, as curves over the step, steps ascending. NaN is a gap.
struct RunCurves {
  std::string label;  // "siamese_hybrid"
  std::vector<std::pair<double, double>> loss, grad_norm, lr, tokens_per_s, images_per_s;
  std::vector<std::pair<double, double>> validation_loss, accuracy, exact_match;
  // Of mixtures: train/router_log.h says what they are.
  std::vector<std::pair<double, double>> balance_loss, router_z, router_entropy, dropped, load_min, load_max,
      dead_experts;
  ExpertHeat load = {};
};

/// Reads `folder`/metrics.jsonl. Step lines: {"step","loss","lr","grad_norm","tokens","tokens_per_s"}, or images.
/// Evaluation lines: {"step","validation_loss", optional "accuracy", "exact_match", …}. Lines of expert loads: {"step",
/// "expert_load_steps","expert_load_blocks","expert_load"}. null, "nan" and "inf" (a
/// diverged run) are kept as NaN. Where the step goes back (a resumed run), the later lines replace the earlier ones. A
/// cut last line (a killed run) is left out; anything else unreadable throws Error with file and line number.
RunCurves read_run(const std::string& folder, const std::string& label);

/// A table of text: the first row is the header; numbers are already formatted.
using Table = std::vector<std::vector<std::string>>;

struct Report {
  std::string title;
  std::string lead;  // a sentence or two above the pictures; plain text
  Table summary;
  std::vector<RunCurves> runs;
  std::vector<std::pair<std::string, std::string>> texts;     // heading, verbatim text (samples, recipe)
  std::vector<std::pair<std::string, std::string>> pictures;  // caption, bytes of a PNG file
};

std::string render_html(const Report& report);

/// The table as aligned plain text for the terminal.
std::string render_text(const Table& table);

}  // namespace siamese
