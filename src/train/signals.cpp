#include "train/signals.h"

#include <csignal>

namespace siamese {
namespace {

volatile std::sig_atomic_t received_signal = 0;

void remember(int signal) {
  received_signal = signal;
  std::signal(signal, SIG_DFL);  // the second one is final
}

}  // namespace

StopSignals::StopSignals() {
  received_signal = 0;
  std::signal(SIGINT, remember);
  std::signal(SIGTERM, remember);
  std::signal(SIGPIPE, SIG_IGN);
}

StopSignals::~StopSignals() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  std::signal(SIGPIPE, SIG_DFL);
}

int StopSignals::received() { return received_signal; }

}  // namespace siamese
