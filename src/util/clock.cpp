#include "util/clock.h"

#include <time.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

namespace siamese {

double seconds_now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double process_start() {
  // Field 22 of /proc/self/stat counts ticks since boot; the name in field 2 may hold spaces, so count from its end.
  std::ifstream file("/proc/self/stat");
  std::string text;
  std::getline(file, text);
  std::istringstream fields(text.substr(std::min(text.size(), text.rfind(')') + 1)));
  std::string field;
  for (int i = 3; i <= 22 && fields >> field; ++i) {
  }
  timespec boot{};
  clock_gettime(CLOCK_BOOTTIME, &boot);
  const double since_boot = static_cast<double>(boot.tv_sec) + 1e-9 * static_cast<double>(boot.tv_nsec);
  try {
    return seconds_now() - (since_boot - std::stod(field) / static_cast<double>(sysconf(_SC_CLK_TCK)));
  } catch (const std::exception&) {
    return seconds_now();
  }
}

}  // namespace siamese
