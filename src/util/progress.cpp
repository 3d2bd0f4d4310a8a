#include "util/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <utility>
#include <vector>

#include "util/text.h"
#include "util/utf8.h"

namespace siamese {
namespace {

constexpr double kRedrawSeconds = 0.1;
constexpr int kBarWidest = 28, kBarNarrowest = 8;
constexpr std::string_view kErase = "\r\x1b[K";

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Asked at every draw: the window may have been resized.
int terminal_columns(std::FILE* out) {
  winsize size{};
  if (ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const char* columns = std::getenv("COLUMNS");
  const int asked = columns ? std::atoi(columns) : 0;
  return asked > 0 ? asked : 80;
}

bool utf8_locale() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (!value || !*value) continue;  // the first one that is set decides, as in setlocale
    const std::string_view locale = value;
    return locale.find("UTF-8") != locale.npos || locale.find("utf8") != locale.npos;
  }
  return false;
}

std::string bar(int percent, int width) {
  static const bool pretty = utf8_locale();
  const int full = percent * width / 100;
  std::string out;
  for (int i = 0; i < width; ++i) out += i < full ? (pretty ? "━" : "=") : (pretty ? "╌" : ".");
  return out;
}

}  // namespace

bool stderr_is_terminal() {
  const char* term = std::getenv("TERM");
  return isatty(STDERR_FILENO) && !(term && std::string_view(term) == "dumb");
}

Progress::Progress(std::string label, int64_t total, bool terminal)
    : Progress(std::move(label), total, [&] {
        ProgressOptions options;
        options.terminal = terminal;
        return options;
      }()) {}

Progress::Progress(std::string label, int64_t total, ProgressOptions options)
    : label_(printable(label)), total_(total), options_(std::move(options)) {
  if (!options_.clock) options_.clock = steady_seconds;
}

Progress::~Progress() {
  try {
    finish();
  } catch (...) {  // out of memory while formatting: the line is not worth ending the program
  }
}

void Progress::update(int64_t done, std::string_view detail) {
  const double now = options_.clock();
  if (first_done_ < 0) {
    first_done_ = done;
    first_at_ = now;
  }
  done_ = done;
  detail_.assign(detail);
  pending_ = true;
  finished_ = false;
  if (due(now)) draw(now);
}

bool Progress::due(double now) const {
  if (!drawn_ || (done_ == total_ && drawn_done_ != total_)) return true;
  if (options_.terminal) return now - drawn_at_ >= kRedrawSeconds;
  return (options_.every_seconds > 0 && now - drawn_at_ >= options_.every_seconds) ||
         (options_.every_steps > 0 && done_ - drawn_done_ >= options_.every_steps);
}

void Progress::draw(double now) {
  if (options_.terminal) {
    write(fmt::format("{}{}", kErase, live_line(now)));
    live_ = true;
  } else {
    write(plain_line(now) + "\n");
  }
  drawn_ = true;
  pending_ = false;
  drawn_at_ = now;
  drawn_done_ = done_;
}

// The rate counts from the first update, so that a resumed run is not credited with the steps before it.
std::string Progress::timing(double now) const {
  const double elapsed = now - first_at_;
  const auto steps = static_cast<double>(done_ - first_done_);
  if (elapsed < 1 || steps <= 0) return {};
  if (total_ > 0 && done_ < total_) {
    return human_seconds(static_cast<double>(total_ - done_) * elapsed / steps) + " left";
  }
  return human_seconds(elapsed);
}

int Progress::percent() const {  // rounded down: 100 % means done
  return static_cast<int>(std::clamp(100.0 * static_cast<double>(done_) / static_cast<double>(total_), 0.0, 100.0));
}

std::string Progress::plain_line(double now) const {
  std::string line = total_ > 0 ? fmt::format("{} {}/{} ({}%)", label_, done_, total_, percent())
                                : fmt::format("{} {}", label_, done_);
  for (const std::string& part : {printable(detail_), timing(now)}) {
    if (!part.empty()) line += "  " + part;
  }
  return line;
}

std::string Progress::live_line(double now) const {
  const int columns = options_.columns > 0 ? options_.columns : terminal_columns(options_.out);
  const int room = columns - 1;  // a full last column makes some terminals wrap
  std::string tail = total_ > 0 ? fmt::format("{:3}%  {}/{}", percent(), done_, total_) : std::to_string(done_);
  for (const std::string& part : {printable(detail_), timing(now)}) {
    if (!part.empty()) tail += "  " + part;
  }
  // The numbers matter more than the bar: it takes what is left, or goes.
  const int left = room - display_width(label_) - display_width(tail) - 3;
  if (total_ > 0 && left >= kBarNarrowest) {
    return fmt::format("{} {} {}", label_, bar(percent(), std::min(left, kBarWidest)), tail);
  }
  return cut_to_width(fmt::format("{} {}", label_, tail), room);
}

void Progress::message(std::string_view line) {
  if (!live_) {
    write(fmt::format("{}\n", line));
    return;
  }
  write(fmt::format("{}{}\n{}", kErase, line, live_line(options_.clock())));
}

void Progress::finish() {
  if (finished_) return;
  finished_ = true;
  if (pending_) draw(options_.clock());
  if (live_) write("\n");
  live_ = false;
}

// A closed pipe must not stop the work, so errors are not looked at.
void Progress::write(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), options_.out);
  std::fflush(options_.out);
}

}  // namespace siamese
