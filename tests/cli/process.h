// The executable as a user runs it: started, watched, signalled, and what it said and left behind.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace siamese::test {

namespace fs = std::filesystem;
using Args = std::vector<std::string>;

/// A folder that goes with the test.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

struct Outcome {
  int status = -1;  // exit status, or -1
  int signal = 0;   // what ended it instead
  bool timed_out = false;
  std::string out, err;
};

struct Surroundings {
  std::string folder = {};                              // working directory; "": the test's own
  std::map<std::string, std::string> environment = {};  // besides the test's own
  long largest_file = -1;  // bytes; a write beyond fails with EFBIG, as on a disk with a quota
  long memory = -1;        // bytes of address space
  std::string out = {};    // stdout goes to this file instead of into Outcome::out
};

/// A child process. Output goes to files, so that no reader is needed and a full pipe cannot stop it. It is killed with
/// its process group when this value or the test ends.
class Process {
 public:
  explicit Process(const Args& command, const Surroundings& surroundings = {});
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  bool running();
  void send(int signal) const;
  /// What has arrived so far.
  std::string out() const;
  std::string err() const;
  /// True as soon as `condition` holds; false when the process ended or `seconds` went by before that.
  bool wait_until(const std::function<bool()>& condition, double seconds = 60);
  /// Waits for the end; after `limit` seconds the process is killed.
  Outcome wait(double limit = 120);

 private:
  TempFolder files_;
  std::string out_;
  pid_t pid_ = -1;
  bool ended_ = false;
  int wait_status_ = 0;
};

/// build/siamese with these arguments, to its end.
Outcome run_siamese(const Args& args, const Surroundings& surroundings = {});
Outcome run(const Args& command, const Surroundings& surroundings = {}, double limit = 120);
/// The command line, for messages.
std::string shown(const Args& args);

/// `siamese` first, then the arguments.
Args siamese_command(const Args& args);
Args operator+(Args a, const Args& b);

std::string read(const std::string& path);
void write(const std::string& path, const std::string& content);
std::vector<std::string> lines(const std::string& text);

/// Every file below `path` with its hash, every folder and link by its kind: equal before and after means untouched.
std::map<std::string, std::string> fingerprint(const std::string& path);

/// The lines of a run's metrics without the one field that is a matter of time.
std::vector<std::string> timeless_metrics(const std::string& run);

/// lm-pico in a size that trains in a fraction of a second, on one thread.
Args tiny_train(const std::string& out, int steps, int checkpoint_every);

}  // namespace siamese::test
