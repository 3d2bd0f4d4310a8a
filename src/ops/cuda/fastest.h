// Which of several ways to the same result is the fastest on this GPU, now.
#pragma once

#include <c10/util/Exception.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "ops/cuda/stream_timer.h"

namespace siamese {

/// run(way) puts a way's work on the stream and throws c10::Error where it cannot. All run a few times, the fastest of
/// them again in turns, so that they see the same clocks: the least median wins. None where all fail.
template <class Way, class Run>
std::optional<Way> fastest_of(const std::vector<Way>& ways, const Run& run, cudaStream_t stream) {
  constexpr int kRepeats = 3, kTurns = 7;
  constexpr size_t kFinalists = 6;
  struct Timed {
    Way way;
    std::vector<float> ms;
    float median() const { return ms[ms.size() / 2]; }
  };
  const StreamTimer timer(stream);
  auto time = [&](Timed& t, int repeats) {
    try {
      timer.begin();
      for (int i = 0; i < repeats; ++i) run(t.way);
      t.ms.push_back(timer.end());
      return true;
    } catch (const c10::Error&) {
      return false;
    }
  };
  std::vector<Timed> all;
  for (const Way& way : ways) {
    Timed t{way, {}};
    if (!time(t, 1)) continue;
    t.ms.clear();  // the first time loads the kernel
    if (time(t, kRepeats)) all.push_back(std::move(t));
  }
  const auto faster = [](const Timed& a, const Timed& b) { return a.median() < b.median(); };
  std::sort(all.begin(), all.end(), faster);
  if (all.size() > kFinalists) all.erase(all.begin() + kFinalists, all.end());
  for (int turn = 1; turn < kTurns && all.size() > 1; ++turn)
    for (size_t i = 0; i < all.size();) {
      if (time(all[i], kRepeats))
        ++i;
      else
        all.erase(all.begin() + static_cast<std::ptrdiff_t>(i));
    }
  if (all.empty()) return std::nullopt;
  for (Timed& t : all) std::sort(t.ms.begin(), t.ms.end());
  return std::min_element(all.begin(), all.end(), faster)->way;
}

}  // namespace siamese
