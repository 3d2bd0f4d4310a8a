// SIGINT and SIGTERM ask the loop to finish its step and save; a second one ends the process at once. A closed pipe
// behind stdout or stderr (`2>&1 | head`) is no reason to stop.
// For the main thread, which is the one that the kernel tells.
#pragma once

namespace siamese {

class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  /// The signal that came, or 0.
  static int received();
};

}  // namespace siamese
