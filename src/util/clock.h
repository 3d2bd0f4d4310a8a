// Time in seconds.
#pragma once

namespace siamese {

/// Monotonic, from an arbitrary start.
double seconds_now();
/// On the same clock, when this process began (loading of libraries included).
double process_start();

}  // namespace siamese
