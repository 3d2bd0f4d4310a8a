#include "util/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <new>
#include <system_error>
#include <utility>

#include "util/error.h"
#include "util/text.h"

namespace siamese {
namespace {

constexpr size_t kChunk = size_t{1} << 20;

/// A path is never cut in a message: the user has to find the file.
std::string shown(const std::string& path) { return printable(path, SIZE_MAX); }

[[noreturn]] void fail_system(const std::string& path, const char* action, int error) {
  fail("{}: cannot {}: {}", shown(path), action, std::generic_category().message(error));
}

/// Repeats a system call that a signal interrupted.
template <class Call>
auto retry(Call call) {
  while (true) {
    const auto result = call();
    if (result != -1 || errno != EINTR) return result;
  }
}

/// A descriptor opened for reading, closed at the end of the scope.
class Reading {
 public:
  Reading(const std::string& path, int flags) {
    descriptor_ = retry([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags); });
    if (descriptor_ < 0) fail_system(path, "open", errno);
  }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;
  ~Reading() { ::close(descriptor_); }
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

[[noreturn]] void fail_write(const std::string& path, uint64_t written, int error) {
  if (error == ENOSPC || error == EDQUOT) {
    fail("{}: cannot write: {} after {}; free some space and try again", shown(path),
         error == ENOSPC ? "the disk is full" : "the disk quota is used up", human_bytes(static_cast<double>(written)));
  }
  fail_system(path, "write", error);
}

}  // namespace

void read_chunks(const std::string& path, const std::function<void(std::span<const std::byte>)>& use) {
  const Reading file(path, 0);
  // Not cleared: for small files, of which image folders have millions, that took longer than reading them.
  const auto buffer = std::make_unique_for_overwrite<std::byte[]>(kChunk);
  while (true) {
    const ssize_t count = retry([&] { return ::read(file.get(), buffer.get(), kChunk); });
    if (count < 0) fail_system(path, "read", errno);
    if (count == 0) return;
    use({buffer.get(), static_cast<size_t>(count)});
  }
}

std::string read_file(const std::string& path, uint64_t limit) {
  std::string content;
  read_chunks(path, [&](std::span<const std::byte> chunk) {
    // Counted while reading: the size a pipe or a file in /proc reports says nothing.
    if (chunk.size() > limit - content.size()) {
      fail("{}: larger than the {} accepted here", shown(path), human_bytes(static_cast<double>(limit)));
    }
    try {
      content.append(reinterpret_cast<const char*>(chunk.data()), chunk.size());
    } catch (const std::bad_alloc&) {
      fail("{}: does not fit in memory", shown(path));
    }
  });
  return content;
}

AtomicFile::AtomicFile(const std::string& path) : path_(path), temporary_(path + ".tmp") {
  const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC;
  descriptor_ = retry([&] { return ::open(temporary_.c_str(), flags, 0666); });
  if (descriptor_ < 0) fail_write(path_, 0, errno);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!renamed_) ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = retry([&] { return ::write(descriptor_, bytes.data(), bytes.size()); });
    if (count < 0) fail_write(path_, written_, errno);
    written_ += static_cast<uint64_t>(count);
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
}

void AtomicFile::commit() {
  if (retry([&] { return ::fsync(descriptor_); }) < 0) fail_write(path_, written_, errno);
  // Never repeated: after an interrupted close the descriptor is gone, and its number may be another file's.
  const int closed = ::close(std::exchange(descriptor_, -1));
  if (closed < 0 && errno != EINTR) fail_write(path_, written_, errno);
  if (::rename(temporary_.c_str(), path_.c_str()) < 0) fail_system(path_, "replace", errno);
  renamed_ = true;
  const std::string folder = std::filesystem::path(path_).parent_path().string();
  sync_folder(folder.empty() ? "." : folder);
}

void write_file_atomic(const std::string& path, std::string_view content) {
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(content)));
  file.commit();
}

void sync_folder(const std::string& path) {
  const Reading folder(path, O_DIRECTORY);
  const int result = retry([&] { return ::fsync(folder.get()); });
  // EINVAL: this file system cannot sync folders (some network ones); there is nothing better to do.
  if (result < 0 && errno != EINVAL) fail_system(path, "sync", errno);
}

void require_free_space(const std::string& folder, uint64_t bytes) {
  struct statvfs info {};
  if (retry([&] { return ::statvfs(folder.c_str(), &info); }) < 0) fail_system(folder, "ask for free space", errno);
  uint64_t available = 0;
  if (__builtin_mul_overflow(uint64_t{info.f_bavail}, uint64_t{info.f_frsize}, &available)) return;
  if (available >= bytes) return;
  fail("{}: writing here needs {}, the disk has {} free", shown(folder), human_bytes(static_cast<double>(bytes)),
       human_bytes(static_cast<double>(available)));
}

MappedFile::MappedFile(const std::string& path) {
  const Reading file(path, O_NONBLOCK);  // so that opening a pipe fails below instead of waiting for its writer
  struct stat info {};
  if (::fstat(file.get(), &info) < 0) fail_system(path, "look at", errno);
  if (!S_ISREG(info.st_mode)) fail("{}: is not a regular file", shown(path));
  const size_t size = static_cast<size_t>(info.st_size);
  if (size == 0) return;  // mmap refuses length 0
  void* const address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (address == MAP_FAILED) fail_system(path, "map", errno);
  bytes_ = {static_cast<const std::byte*>(address), size};
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);  // other unmaps what was ours
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace siamese
