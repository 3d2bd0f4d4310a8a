#include "util/files.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>

#include "util/error.h"
#include "util/hash.h"

namespace siamese {
namespace {

namespace fs = std::filesystem;

class Files : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "siamese_files_XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string at(const std::string& name) const { return (folder_ / name).string(); }
  fs::path folder_;
};

template <class Action>
std::string error_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::string hash_text(std::string_view text) { return hash_bytes(std::as_bytes(std::span(text))); }

#define EXPECT_HAS(text, part) EXPECT_PRED_FORMAT2(testing::IsSubstring, part, text)

TEST_F(Files, RoundTripReplacesAndLeavesNoTemporary) {
  std::string content(3'000'001, '\0');
  std::iota(content.begin(), content.end(), '\0');
  for (const std::string& text : {std::string("old"), std::string(), content}) {
    write_file_atomic(at("f"), text);
    EXPECT_TRUE(read_file(at("f")) == text);
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

TEST_F(Files, AStaleTemporaryOfAKilledRunDoesNotMatter) {
  std::ofstream(at("f.tmp")) << "half written, and longer than what follows";
  write_file_atomic(at("f"), "new");
  EXPECT_EQ(read_file(at("f")), "new");
  EXPECT_FALSE(fs::exists(at("f.tmp")));
}

TEST_F(Files, ReadErrorsNameThePathAndTheReason) {
  EXPECT_EQ(error_of([&] { read_file(at("none")); }), at("none") + ": cannot open: No such file or directory");
  EXPECT_EQ(error_of([&] { read_file(at("a\nb")); }), at("a\\x0ab") + ": cannot open: No such file or directory");
  EXPECT_HAS(error_of([&] { read_file(folder_.string()); }), "cannot read: Is a directory");
  EXPECT_HAS(error_of([&] { hash_file(at("none")); }), "none: cannot open");
}

TEST_F(Files, ReadHonoursItsLimit) {
  write_file_atomic(at("f"), "12345");
  EXPECT_EQ(read_file(at("f"), 5), "12345");
  EXPECT_EQ(error_of([&] { read_file(at("f"), 4); }), at("f") + ": larger than the 4 B accepted here");
  EXPECT_HAS(error_of([&] { read_file("/dev/zero", 1 << 22); }), "larger than the 4.0 MiB");
}

TEST_F(Files, ReadSurvivesSignalsAndShortReads) {
  struct sigaction action {
  }, before{};
  action.sa_handler = [](int) {};  // without SA_RESTART: a blocked call returns EINTR
  ASSERT_EQ(::sigaction(SIGUSR1, &action, &before), 0);
  ASSERT_EQ(::mkfifo(at("pipe").c_str(), 0600), 0);
  std::thread writer([path = at("pipe"), reader = ::pthread_self()] {
    const auto interrupt = [&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      ::pthread_kill(reader, SIGUSR1);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    };
    interrupt();  // while the reader waits in open
    std::ofstream pipe(path);
    for (const char* piece : {"one ", "two ", "three"}) {
      interrupt();  // while it waits in read
      pipe << piece << std::flush;
    }
  });
  EXPECT_EQ(read_file(at("pipe")), "one two three");
  writer.join();
  ::sigaction(SIGUSR1, &before, nullptr);
}

TEST_F(Files, AFullDiskIsNamedAndTheTemporaryRemoved) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  write_file_atomic(at("f"), "before");
  fs::create_symlink("/dev/full", at("f.tmp"));
  EXPECT_EQ(error_of([&] { write_file_atomic(at("f"), "after"); }),
            at("f") + ": cannot write: the disk is full after 0 B; free some space and try again");
  EXPECT_FALSE(fs::is_symlink(at("f.tmp")));
  EXPECT_EQ(read_file(at("f")), "before");
}

TEST_F(Files, AShortWriteIsContinuedAndItsErrorReported) {
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  struct rlimit small = before;
  small.rlim_cur = 10'000;  // the first write stops here, the second one fails with EFBIG
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string message = error_of([&] { write_file_atomic(at("f"), std::string(20'000, 'x')); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(message, at("f") + ": cannot write: File too large");
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(Files, WriteErrorsNameThePath) {
  EXPECT_EQ(error_of([&] { write_file_atomic(at("no/f"), "x"); }),
            at("no/f") + ": cannot write: No such file or directory");
  fs::create_directory(at("taken"));
  EXPECT_HAS(error_of([&] { write_file_atomic(at("taken"), "x"); }), "taken: cannot replace: Is a directory");
  EXPECT_FALSE(fs::exists(at("taken.tmp")));
}

TEST_F(Files, AtomicFileWithoutCommitLeavesNothing) {
  { AtomicFile(at("f")).write(std::as_bytes(std::span("abc"))); }
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(Files, SyncFolder) {
  sync_folder(folder_.string());
  EXPECT_HAS(error_of([&] { sync_folder(at("none")); }), "none: cannot open: No such file or directory");
}

TEST_F(Files, FreeSpace) {
  require_free_space(folder_.string(), 0);
  const std::string message = error_of([&] { require_free_space(folder_.string(), UINT64_MAX); });
  EXPECT_HAS(message, folder_.string() + ": writing here needs 16.0 EiB, the disk has ");
  EXPECT_HAS(message, "B free");
  EXPECT_HAS(error_of([&] { require_free_space(at("none"), 1); }), "cannot ask for free space: No such file");
}

TEST_F(Files, Mapping) {
  write_file_atomic(at("f"), "mapped");
  write_file_atomic(at("g"), "");
  MappedFile a(at("f")), b(at("g"));
  EXPECT_EQ(b.bytes().size(), 0U);
  b = std::move(a);
  const MappedFile c(std::move(b));
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(c.bytes().data()), c.bytes().size()), "mapped");
  EXPECT_HAS(error_of([&] { MappedFile(folder_.string()); }), "is not a regular file");
  EXPECT_HAS(error_of([&] { MappedFile(at("none")); }), "cannot open: No such file or directory");
  ASSERT_EQ(::mkfifo(at("pipe").c_str(), 0600), 0);
  EXPECT_HAS(error_of([&] { MappedFile(at("pipe")); }), "is not a regular file");
}

TEST_F(Files, HashKnownVectors) {
  EXPECT_EQ(hash_text(""), "ef46db3751d8e999");
  EXPECT_EQ(hash_text("a"), "d24ec4f1a98c6e5b");
  EXPECT_EQ(hash_text("abc"), "44bc2cf5ad770999");
}

TEST_F(Files, HashInOddPiecesEqualsOneShot) {
  std::string text(100'000, '\0');
  uint32_t state = 1;
  for (char& c : text) c = static_cast<char>((state = state * 1664525U + 1013904223U) >> 24);
  const auto bytes = std::as_bytes(std::span(text));
  EXPECT_EQ(hash_bytes(bytes), "528a27744c2d3d05");  // what libxxhash 0.8.1 says
  for (const size_t piece : {1U, 3U, 7U, 31U, 32U, 33U, 63U, 1021U, 65536U}) {
    Xxh64 hash;
    for (size_t i = 0; i < bytes.size(); i += piece) hash.update(bytes.subspan(i, std::min(piece, bytes.size() - i)));
    EXPECT_EQ(hash.hex(), hash_bytes(bytes)) << "pieces of " << piece;
  }
  write_file_atomic(at("f"), text);
  EXPECT_EQ(hash_file(at("f")), hash_bytes(bytes));
  text[50'000] = static_cast<char>(text[50'000] ^ 1);
  EXPECT_NE(hash_file(at("f")), hash_bytes(bytes));
}

}  // namespace
}  // namespace siamese
