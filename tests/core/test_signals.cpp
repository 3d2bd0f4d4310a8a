// What asks a run to stop leaves alone what lies below the stack pointer: while oneDNN's products run, that is data.
#include <gtest/gtest.h>

#include <csignal>

#include "train/signals.h"

namespace siamese {
namespace {

/// Whether a signal wrote there. A call's own frames are nearer than `near`; a signal's take more than that.
[[gnu::noinline]] bool writes_below_the_stack_pointer(int signal) {
  constexpr int far = 16 << 10, near = 1 << 10;
  volatile unsigned char* const frame = static_cast<unsigned char*>(__builtin_frame_address(0));
  for (int i = near; i < far; ++i) frame[-i] = 0xa5;
  std::raise(signal);
  bool written = false;
  for (int i = near; i < far; ++i) written = written || frame[-i] != 0xa5;
  return written;
}

TEST(StopSignals, LeaveWhatLiesBelowTheStackPointerAlone) {
  for (const int signal : {SIGINT, SIGTERM}) {
    std::signal(signal, [](int) {});
    std::raise(signal);  // the loader has found raise()
    EXPECT_TRUE(writes_below_the_stack_pointer(signal)) << "the test sees nothing";
    const StopSignals signals;
    EXPECT_FALSE(writes_below_the_stack_pointer(signal));
    EXPECT_EQ(StopSignals::received(), signal);
  }
}

TEST(StopSignals, TheSecondOneIsFinal) {
  const auto twice = [] {
    const StopSignals signals;
    std::raise(SIGTERM);
    std::raise(SIGTERM);
  };
  EXPECT_EXIT(twice(), testing::KilledBySignal(SIGTERM), "");
}

}  // namespace
}  // namespace siamese
