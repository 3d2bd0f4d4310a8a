#include "images/resize_rows.h"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels/cpu_level.h"
// The instruction set of one function; has_avx2 says at run time whether it may be called.
#define SIAMESE_AVX2 __attribute__((target("avx2")))
#endif

namespace siamese {
namespace {

constexpr int32_t kHalf = 1 << (kWeightBits - 1);

inline uint8_t to_byte(int32_t sum) { return static_cast<uint8_t>(std::clamp(sum >> kWeightBits, 0, 255)); }

template <int channels>
void columns_plain(const uint8_t* row, const Weights& weights, uint8_t* out) {
  const int outputs = static_cast<int>(weights.first.size());
  for (int x = 0; x < outputs; ++x) {
    const uint8_t* value = row + std::ptrdiff_t{channels} * weights.first[x];
    const int32_t* const weight = weights.of(x);
    int32_t sum[channels];
    std::fill_n(sum, channels, kHalf);
    for (int i = 0; i < weights.count; ++i, value += channels) {
      for (int c = 0; c < channels; ++c) sum[c] += value[c] * weight[i];
    }
    for (int c = 0; c < channels; ++c) out[channels * x + c] = to_byte(sum[c]);
  }
}

void rows_plain(const uint8_t* rows, int64_t length, const int32_t* weights, int count, uint8_t* out) {
  for (int64_t x = 0; x < length; ++x) {
    int32_t sum = kHalf;
    for (int i = 0; i < count; ++i) sum += rows[i * length + x] * weights[i];
    out[x] = to_byte(sum);
  }
}

#if defined(__x86_64__)

// By hand: GCC 12 makes vectors of several pixels out of the loops above, which is four times slower, and SSE2, all
// that a program for any x86-64 may use, has no product of 32-bit numbers.

template <class Word>
inline Word load(const void* address) {
  Word word;
  std::memcpy(&word, address, sizeof word);
  return word;
}

/// Red, green and blue of an output pixel from the two halves of its sum.
SIAMESE_AVX2 inline int to_pixel(__m256i sum) {
  const __m128i both = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
  const __m128i words = _mm_srai_epi32(_mm_add_epi32(both, _mm_set1_epi32(kHalf)), kWeightBits);
  const __m128i packed = _mm_packs_epi32(words, words);
  return _mm_cvtsi128_si32(_mm_packus_epi16(packed, packed));
}

/// Two rows, which share the weights. Of each two pixels at a time, one in each half of a register: red, green, blue
/// and nothing.
SIAMESE_AVX2 void columns3_avx2(const uint8_t* row0, const uint8_t* row1, const Weights& weights, uint8_t* out0,
                                uint8_t* out1) {
  const __m256i spread = _mm256_setr_epi8(0, -1, -1, -1, 1, -1, -1, -1, 2, -1, -1, -1, -1, -1, -1, -1,  //
                                          3, -1, -1, -1, 4, -1, -1, -1, 5, -1, -1, -1, -1, -1, -1, -1);
  const __m256i halves = _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1);
  const int outputs = static_cast<int>(weights.first.size()), count = weights.count, stride = weights.stride;
  const int* const first = weights.first.data();
  const int32_t* weight = weights.values.data();
  for (int x = 0; x < outputs; ++x, weight += stride) {
    const std::ptrdiff_t begin = std::ptrdiff_t{3} * first[x];
    __m256i sum0 = _mm256_setzero_si256(), sum1 = sum0;
    for (int i = 0; i < count; i += 2) {
      const __m256 pair = _mm256_castsi256_ps(_mm256_set1_epi64x(load<int64_t>(weight + i)));
      const __m256i factors = _mm256_castps_si256(_mm256_permutevar_ps(pair, halves));
      const __m256i pixels0 = _mm256_shuffle_epi8(_mm256_set1_epi64x(load<int64_t>(row0 + begin + 3 * i)), spread);
      const __m256i pixels1 = _mm256_shuffle_epi8(_mm256_set1_epi64x(load<int64_t>(row1 + begin + 3 * i)), spread);
      sum0 = _mm256_add_epi32(sum0, _mm256_mullo_epi32(pixels0, factors));
      sum1 = _mm256_add_epi32(sum1, _mm256_mullo_epi32(pixels1, factors));
    }
    const int pixel0 = to_pixel(sum0), pixel1 = to_pixel(sum1);
    // Four bytes are quicker to write than three, and the next pixel overwrites the fourth.
    const size_t size = x + 1 < outputs ? 4 : 3;
    std::memcpy(out0 + std::ptrdiff_t{3} * x, &pixel0, size);
    std::memcpy(out1 + std::ptrdiff_t{3} * x, &pixel1, size);
  }
}

/// 32 values at a time, whose sums stay in registers.
SIAMESE_AVX2 inline void rows32_avx2(const uint8_t* rows, int64_t length, const int32_t* weights, int count,
                                     uint8_t* out) {
  __m256i sum[4];
  for (__m256i& s : sum) s = _mm256_set1_epi32(kHalf);
  for (int i = 0; i < count; ++i) {
    const __m256i weight = _mm256_set1_epi32(weights[i]);
    for (int j = 0; j < 4; ++j) {
      const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(rows + i * length + 8 * j));
      sum[j] = _mm256_add_epi32(sum[j], _mm256_mullo_epi32(_mm256_cvtepu8_epi32(bytes), weight));
    }
  }
  for (__m256i& s : sum) s = _mm256_srai_epi32(s, kWeightBits);
  // Packing works in each half by itself, so that groups of four bytes come out as 0 2 4 6 1 3 5 7.
  const __m256i packed = _mm256_packus_epi16(_mm256_packs_epi32(sum[0], sum[1]), _mm256_packs_epi32(sum[2], sum[3]));
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm256_permutevar8x32_epi32(packed, order));
}

SIAMESE_AVX2 void rows_avx2(const uint8_t* rows, int64_t length, const int32_t* weights, int count, uint8_t* out) {
  if (length < 32) return rows_plain(rows, length, weights, count, out);
  for (int64_t x = 0; x + 32 <= length; x += 32) rows32_avx2(rows + x, length, weights, count, out + x);
  // The last 32 again instead of a rest: the same values come out.
  rows32_avx2(rows + length - 32, length, weights, count, out + length - 32);
}

bool has_avx2() { return kernels::cpu_level() != kernels::CpuLevel::base; }

#endif

}  // namespace

void filter_columns(const uint8_t* rows, int64_t length, int count, int channels, const Weights& weights,
                    uint8_t* out) {
  const int64_t length_out = static_cast<int64_t>(weights.first.size()) * channels;
#if defined(__x86_64__)
  if (channels == 3 && has_avx2()) {
    for (int y = 0; y < count; y += 2) {
      const int next = std::min(y + 1, count - 1);  // the last of an odd number is done twice
      columns3_avx2(rows + y * length, rows + next * length, weights, out + y * length_out, out + next * length_out);
    }
    return;
  }
#endif
  for (int y = 0; y < count; ++y) {
    const auto columns = channels == 3 ? columns_plain<3> : columns_plain<1>;
    columns(rows + y * length, weights, out + y * length_out);
  }
}

void filter_rows(const uint8_t* rows, int64_t length, const int32_t* weights, int count, uint8_t* out) {
#if defined(__x86_64__)
  if (has_avx2()) return rows_avx2(rows, length, weights, count, out);
#endif
  rows_plain(rows, length, weights, count, out);
}

}  // namespace siamese
