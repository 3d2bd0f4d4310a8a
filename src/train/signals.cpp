#include "train/signals.h"

#include <csignal>

namespace siamese {
namespace {

volatile std::sig_atomic_t received_signal = 0;

void remember(int signal) { received_signal = signal; }

// Handlers run on a stack of their own: oneDNN's products use the stack pointer for memory of theirs while they work,
// and what a signal puts below it would be somebody else's.
alignas(16) char handler_stack[64 << 10];
stack_t stack_before;

}  // namespace

StopSignals::StopSignals() {
  received_signal = 0;
  stack_t own{};
  own.ss_sp = handler_stack;
  own.ss_size = sizeof handler_stack;
  sigaltstack(&own, &stack_before);
  struct sigaction action {};
  action.sa_handler = remember;
  action.sa_flags = static_cast<int>(SA_ONSTACK | SA_RESTART | SA_RESETHAND);  // the second one is final
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

StopSignals::~StopSignals() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  std::signal(SIGPIPE, SIG_DFL);
  sigaltstack(&stack_before, nullptr);
}

int StopSignals::received() { return received_signal; }

}  // namespace siamese
