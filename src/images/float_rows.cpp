#include "images/float_rows.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels/cpu_level.h"
// The instruction set of one function; cpu_level says at run time whether it may be called. Without FMA, whose sums are
// rounded otherwise.
#define SIAMESE_AVX2 __attribute__((target("avx2")))
#endif

namespace siamese {
namespace {

void plain(const uint8_t* pixel, ptrdiff_t step, int begin, int count, const Levels levels[3], float* const out[3]) {
  pixel += begin * step;
  for (int x = begin; x < count; ++x, pixel += step) {
    for (int c = 0; c < 3; ++c) out[c][x] = levels[c].scale * static_cast<float>(pixel[c]) + levels[c].black;
  }
}

#if defined(__x86_64__)

/// Where one channel of eight pixels lies in their bytes 0 … 15 (`low`) and 8 … 23 (`high`), in the order of output.
struct Places {
  int8_t low[16], high[16];
  Places(int channel, bool mirrored) {
    for (int i = 0; i < 16; ++i) {
      low[i] = high[i] = -1;  // gives 0
      if (i >= 8) continue;
      const int byte = 3 * (mirrored ? 7 - i : i) + channel;
      (byte < 16 ? low[i] : high[i]) = static_cast<int8_t>(byte < 16 ? byte : byte - 8);
    }
  }
};

SIAMESE_AVX2 int eights(const uint8_t* pixel, bool mirrored, int count, const Levels levels[3], float* const out[3]) {
  __m128i low[3], high[3];
  __m256 scale[3], black[3];
  for (int c = 0; c < 3; ++c) {
    const Places places(c, mirrored);
    low[c] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(places.low));
    high[c] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(places.high));
    scale[c] = _mm256_set1_ps(levels[c].scale);
    black[c] = _mm256_set1_ps(levels[c].black);
  }
  int x = 0;
  for (; x + 8 <= count; x += 8) {
    const uint8_t* const first = mirrored ? pixel - ptrdiff_t{3} * (x + 7) : pixel + ptrdiff_t{3} * x;
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(first));
    const __m128i later = _mm_loadu_si128(reinterpret_cast<const __m128i*>(first + 8));
    for (int c = 0; c < 3; ++c) {
      const __m128i values = _mm_or_si128(_mm_shuffle_epi8(bytes, low[c]), _mm_shuffle_epi8(later, high[c]));
      const __m256 floats = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(values));
      _mm256_storeu_ps(out[c] + x, _mm256_add_ps(_mm256_mul_ps(floats, scale[c]), black[c]));
    }
  }
  return x;
}

#endif

}  // namespace

void float_row(const uint8_t* pixel, ptrdiff_t step, int count, const Levels levels[3], float* const out[3]) {
  int done = 0;
#if defined(__x86_64__)
  const bool mirrored = step == -3;
  if ((step == 3 || mirrored) && kernels::cpu_level() != kernels::CpuLevel::base) {
    done = eights(pixel, mirrored, count, levels, out);
  }
#endif
  plain(pixel, step, done, count, levels, out);
}

}  // namespace siamese
