#include "util/hash.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "util/files.h"

namespace siamese {
namespace {

// The hash is defined over little-endian words; so are safetensors files, which are mapped as they are.
static_assert(std::endian::native == std::endian::little, "only little-endian machines are supported");

constexpr uint64_t kPrime1 = 0x9E3779B185EBCA87ULL;
constexpr uint64_t kPrime2 = 0xC2B2AE3D27D4EB4FULL;
constexpr uint64_t kPrime3 = 0x165667B19E3779F9ULL;
constexpr uint64_t kPrime4 = 0x85EBCA77C2B2AE63ULL;
constexpr uint64_t kPrime5 = 0x27D4EB2F165667C5ULL;
constexpr size_t kStripe = 32;

template <class Word>
uint64_t load(const std::byte* bytes) {
  Word word;
  std::memcpy(&word, bytes, sizeof word);  // the bytes may be unaligned
  return word;
}

uint64_t round(uint64_t lane, uint64_t word) { return std::rotl(lane + word * kPrime2, 31) * kPrime1; }

}  // namespace

Xxh64::Xxh64(uint64_t seed) : seed_(seed), lanes_{seed + kPrime1 + kPrime2, seed + kPrime2, seed, seed - kPrime1} {}

void Xxh64::stripe(const std::byte* bytes) {
  for (size_t i = 0; i < lanes_.size(); ++i) lanes_[i] = round(lanes_[i], load<uint64_t>(bytes + 8 * i));
}

void Xxh64::update(std::span<const std::byte> bytes) {
  const size_t waiting = total_ % kStripe;
  total_ += bytes.size();
  if (waiting > 0) {
    const size_t taken = std::min(bytes.size(), kStripe - waiting);
    std::copy_n(bytes.begin(), taken, pending_.begin() + static_cast<ptrdiff_t>(waiting));
    bytes = bytes.subspan(taken);
    if (waiting + taken < kStripe) return;
    stripe(pending_.data());
  }
  for (; bytes.size() >= kStripe; bytes = bytes.subspan(kStripe)) stripe(bytes.data());
  std::copy(bytes.begin(), bytes.end(), pending_.begin());
}

uint64_t Xxh64::digest() const {
  uint64_t hash = seed_ + kPrime5;
  if (total_ >= kStripe) {
    hash = std::rotl(lanes_[0], 1) + std::rotl(lanes_[1], 7) + std::rotl(lanes_[2], 12) + std::rotl(lanes_[3], 18);
    for (const uint64_t lane : lanes_) hash = (hash ^ round(0, lane)) * kPrime1 + kPrime4;
  }
  hash += total_;

  const std::byte* next = pending_.data();
  const std::byte* const end = next + total_ % kStripe;
  for (; end - next >= 8; next += 8) hash = std::rotl(hash ^ round(0, load<uint64_t>(next)), 27) * kPrime1 + kPrime4;
  for (; end - next >= 4; next += 4) hash = std::rotl(hash ^ load<uint32_t>(next) * kPrime1, 23) * kPrime2 + kPrime3;
  for (; end != next; ++next) hash = std::rotl(hash ^ load<uint8_t>(next) * kPrime5, 11) * kPrime1;

  hash = (hash ^ (hash >> 33)) * kPrime2;
  hash = (hash ^ (hash >> 29)) * kPrime3;
  return hash ^ (hash >> 32);
}

std::string Xxh64::hex() const { return fmt::format("{:016x}", digest()); }

std::string hash_bytes(std::span<const std::byte> bytes) {
  Xxh64 hash;
  hash.update(bytes);
  return hash.hex();
}

std::string hash_file(const std::string& path) {
  Xxh64 hash;
  // Read, not mapped: a disk error while checking a checkpoint must be an Error, not a SIGBUS.
  read_chunks(path, [&](std::span<const std::byte> chunk) { hash.update(chunk); });
  return hash.hex();
}

}  // namespace siamese
