// Picks the instruction set of the CPU kernels once, at run time.
#pragma once

namespace siamese::kernels {

enum class CpuLevel { base, v3, v4 };

inline CpuLevel cpu_level() {
  static const CpuLevel level = [] {
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd"))
      return CpuLevel::v4;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"))
      return CpuLevel::v3;
    return CpuLevel::base;
  }();
  return level;
}

/// Calls FUNCTION of the namespace that was compiled for this CPU.
#define SIAMESE_DISPATCH(function, ...)   \
  switch (cpu_level()) {                  \
    case CpuLevel::v4:                    \
      return v4::function(__VA_ARGS__);   \
    case CpuLevel::v3:                    \
      return v3::function(__VA_ARGS__);   \
    case CpuLevel::base:                  \
      return base::function(__VA_ARGS__); \
  }

}  // namespace siamese::kernels
