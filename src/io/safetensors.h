// safetensors files: an 8-byte little-endian header length, a JSON header, then raw tensor bytes.
// No LibTorch here: the reader is fuzzed and serves tests and tools alike.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace siamese {

enum class DType { F64, F32, F16, BF16, I64, I32, I16, I8, U8, BOOL };

// In the order of DType.
constexpr std::array kDTypeNames = {"F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U8", "BOOL"};
constexpr std::array<size_t, kDTypeNames.size()> kDTypeSizes = {8, 4, 2, 2, 8, 4, 2, 1, 1, 1};

inline size_t dtype_size(DType dtype) { return kDTypeSizes.at(static_cast<size_t>(dtype)); }
inline const char* dtype_name(DType dtype) { return kDTypeNames.at(static_cast<size_t>(dtype)); }

/// Bytes of a dense tensor; empty when a dimension is negative or the size leaves int64. Zeros count as 1 in that
/// check, so that strides computed from an accepted shape do not overflow either.
std::optional<uint64_t> tensor_size(DType dtype, const std::vector<int64_t>& shape);
/// "F32 [2, 3]", for messages.
std::string describe(DType dtype, const std::vector<int64_t>& shape);

constexpr uint64_t kMaxSafetensorsHeader = 100'000'000;  // the limit of the reference implementation
constexpr size_t kMaxDimensions = 64;                    // LibTorch's kernels take no more

struct TensorView {
  DType dtype;
  std::vector<int64_t> shape;        // empty: a scalar
  std::span<const std::byte> bytes;  // points into the file's mapping
};

/// A memory-mapped file, checked completely before anything is handed out: header length, JSON, dtypes, shapes
/// without overflow, offsets in range that match shape and dtype, no overlap, no gap, nothing after the last tensor.
/// Move-only; the views live as long as it does.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path);
  /// Parses bytes in memory (for the fuzzer); `name` is used in messages. The bytes must outlive the object.
  SafetensorsFile(std::span<const std::byte> bytes, const std::string& name);
  SafetensorsFile(SafetensorsFile&&) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) noexcept;
  ~SafetensorsFile();

  const std::map<std::string, TensorView>& tensors() const;
  const std::map<std::string, std::string>& metadata() const;
  const std::string& name() const;
  /// Throws Error naming file and tensor when it is absent.
  const TensorView& at(const std::string& tensor) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

struct TensorToWrite {
  std::string name;
  DType dtype;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
};
/// What is there only once it is asked for; the bytes have to last until the next is.
struct TensorToFetch {
  std::string name;
  DType dtype;
  std::vector<int64_t> shape;
  std::function<std::span<const std::byte>()> fetch;
};

/// Writes in the given order, header padded with spaces so that data starts at a multiple of 64, flushes to disk
/// (fsync) and returns the XXH64 of the file's bytes as 16 hex digits. Goes through `path` + ".tmp": a full disk or a
/// kill leaves what was at `path` before; a full disk throws and removes the ".tmp".
std::string write_safetensors(const std::string& path, const std::vector<TensorToWrite>& tensors,
                              const std::map<std::string, std::string>& metadata);
std::string write_fetched(const std::string& path, const std::vector<TensorToFetch>& tensors,
                          const std::map<std::string, std::string>& metadata);

}  // namespace siamese
