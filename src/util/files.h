// Files that survive a kill or a full disk: whole or not there at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace siamese {

/// Whole file as a string. Throws Error naming the path and the reason; `limit` bounds the size accepted.
std::string read_file(const std::string& path, uint64_t limit = UINT64_MAX);

/// Calls `use` with one piece of the file after the other (at most 1 MiB each).
void read_chunks(const std::string& path, const std::function<void(std::span<const std::byte>)>& use);

/// Writes to `path` + ".tmp", fsyncs, renames over `path`, fsyncs the folder.
void write_file_atomic(const std::string& path, std::string_view content);

/// The same in pieces: `path` appears, or is replaced, at `commit` only. Without a commit, `path` + ".tmp" is removed.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();
  void write(std::span<const std::byte> bytes);
  void commit();

 private:
  std::string path_, temporary_;
  int descriptor_ = -1;
  uint64_t written_ = 0;
  bool renamed_ = false;
};

/// fsync of a folder, so that a rename inside it is on disk.
void sync_folder(const std::string& path);

/// Throws Error when the file system of `folder` has less than `bytes` free: "… needs 1.2 GiB, … has 0.3 GiB free".
void require_free_space(const std::string& folder, uint64_t bytes);

/// XXH64 of bytes or of a whole file, 16 hex digits. In pieces: util/hash.h.
std::string hash_bytes(std::span<const std::byte> bytes);
std::string hash_file(const std::string& path);

/// Read-only mapping of a file. Move-only.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace siamese
