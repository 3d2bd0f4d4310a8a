// Counter-based random numbers: a pure function of (seed, step, site, element), the same on CPU and GPU.
//
// Philox4x32-10 (Salmon et al., SC 2011). Key: 64 bits mixed from seed and site. Counter: element/4 in the low
// and the step in the high half, so that one call serves four neighbouring elements. No state exists, so nothing
// has to be saved for resuming, recomputation, graphs or other rank counts.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define SIAMESE_HD __host__ __device__ inline
#else
#define SIAMESE_HD inline
#endif

namespace siamese {

/// Where in the program a random number is used. Dropout sites add their layer: `site_at(kResidualDropout, k)`.
enum RandomSite : uint32_t {
  kInitSite = 1,        // xor a hash of the parameter's name
  kDataOrder = 2,       // + epoch
  kDataText = 3,        // bundled generators, training
  kDataValidation = 4,  // bundled generators, validation
  kSampling = 5,        // text generation
  kEmbeddingDropout = 6,
  kResidualDropout = 7,   // + sub-layer
  kAttentionDropout = 8,  // + block
  kDropPath = 9,          // + sub-layer
  kLabelDropout = 10,
  kImageOrder = 11,    // step: the epoch
  kImageAugment = 12,  // step: the sample's place in the run
  kImageMix = 13,      // mixup and cutmix of a batch
  kRouterJitter = 14,  // + block
  kTestSite = 255,
};

SIAMESE_HD uint32_t site_at(RandomSite site, uint32_t index) { return static_cast<uint32_t>(site) | (index << 8); }

SIAMESE_HD uint64_t mix64(uint64_t z) {  // splitmix64's finaliser
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

struct Philox4 {
  uint32_t v[4];
};

struct RandomKey {
  uint32_t k0, k1;
  uint64_t step;

  SIAMESE_HD RandomKey(uint64_t seed, uint64_t step_, uint32_t site) : step(step_) {
    const uint64_t k =
        mix64(mix64(seed + 0x9e3779b97f4a7c15ULL) ^ (static_cast<uint64_t>(site) * 0xd1342543de82ef95ULL));
    k0 = static_cast<uint32_t>(k);
    k1 = static_cast<uint32_t>(k >> 32);
  }

  /// Four 32-bit words for elements 4·group … 4·group+3.
  SIAMESE_HD Philox4 words(uint64_t group) const {
    uint32_t c0 = static_cast<uint32_t>(group), c1 = static_cast<uint32_t>(group >> 32);
    uint32_t c2 = static_cast<uint32_t>(step), c3 = static_cast<uint32_t>(step >> 32);
    uint32_t a = k0, b = k1;
    for (int round = 0; round < 10; ++round) {
      const uint64_t p0 = 0xD2511F53ULL * c0, p1 = 0xCD9E8D57ULL * c2;
      const uint32_t n0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ a, n2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ b;
      c1 = static_cast<uint32_t>(p1);
      c3 = static_cast<uint32_t>(p0);
      c0 = n0;
      c2 = n2;
      a += 0x9E3779B9U;
      b += 0xBB67AE85U;
    }
    return {{c0, c1, c2, c3}};
  }

  SIAMESE_HD uint32_t word(uint64_t element) const { return words(element >> 2).v[element & 3]; }
};

/// In [0, 1), 24 bits: exact in fp32.
SIAMESE_HD float uniform24(uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }

/// In (0, 1), 32 bits, never 0 or 1.
SIAMESE_HD double uniform_open(uint32_t word) { return (static_cast<double>(word) + 0.5) * 0x1p-32; }

/// Whole number in [0, n) without visible bias for n far below 2^32.
SIAMESE_HD uint32_t below(uint32_t word, uint32_t n) {
  return static_cast<uint32_t>((static_cast<uint64_t>(word) * n) >> 32);
}

}  // namespace siamese
