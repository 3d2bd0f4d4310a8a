// How far long work has come: one live line on a terminal, now and then a plain line in a pipe or a log file.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>

namespace siamese {

struct ProgressOptions {
  bool terminal = false;          // a live bar instead of plain lines
  double every_seconds = 10;      // in a pipe: a line after this long; 0 turns the rule off
  int64_t every_steps = 0;        // in a pipe: a line after this many steps; 0 turns the rule off
  std::FILE* out = stderr;        // not owned
  int columns = 0;                // 0: ask the terminal
  std::function<double()> clock;  // seconds; empty: the steady clock. Tests put their own in
};

/// Whether stderr is a terminal that understands "erase to the end of the line".
bool stderr_is_terminal();

/// Belongs to one thread. Going out of scope, also by an exception, leaves the cursor on a fresh line and the last
/// state printed.
class Progress {
 public:
  /// `total` ≤ 0: unknown; then there is a count but no bar.
  Progress(std::string label, int64_t total, bool terminal);
  Progress(std::string label, int64_t total, ProgressOptions options);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();

  /// `done` counts from 0 to total; a resumed run may begin anywhere. Cheap enough to call at every step.
  void update(int64_t done, std::string_view detail = {});

  /// A full line above the bar.
  void message(std::string_view line);

  /// Prints the last state if it is not on the screen yet. More calls do nothing.
  void finish();

 private:
  bool due(double now) const;
  void draw(double now);
  int percent() const;
  std::string timing(double now) const;
  std::string plain_line(double now) const;
  std::string live_line(double now) const;
  void write(std::string_view text);

  std::string label_, detail_;
  int64_t total_;
  ProgressOptions options_;
  int64_t done_ = 0, first_done_ = -1, drawn_done_ = 0;
  double first_at_ = 0, drawn_at_ = 0;
  bool drawn_ = false;    // something has been printed
  bool pending_ = false;  // the newest state has not
  bool live_ = false;     // the cursor stands at the end of a live line
  bool finished_ = false;
};

}  // namespace siamese
