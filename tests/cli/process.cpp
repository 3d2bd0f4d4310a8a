#include "process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "util/files.h"

namespace siamese::test {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kExecFailed = 127;

bool before(Clock::time_point start, double seconds) {
  return std::chrono::duration<double>(Clock::now() - start).count() < seconds;
}

void redirect(const char* path, int descriptor) {
  const int file = ::open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (file < 0 || ::dup2(file, descriptor) < 0) ::_exit(kExecFailed);
  ::close(file);
}

void limit(__rlimit_resource_t resource, long most) {
  const rlimit both{static_cast<rlim_t>(most), static_cast<rlim_t>(most)};
  ::setrlimit(resource, &both);
}

/// Between fork and exec: system calls only.
void become(char* const* argv, const Surroundings& s, const char* out, const char* err) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a test that is interrupted leaves no training behind
  const int nothing = ::open("/dev/null", O_RDONLY);
  ::dup2(nothing, STDIN_FILENO);
  redirect(out, STDOUT_FILENO);
  redirect(err, STDERR_FILENO);
  if (!s.folder.empty() && ::chdir(s.folder.c_str()) != 0) ::_exit(kExecFailed);
  for (const auto& [name, value] : s.environment) ::setenv(name.c_str(), value.c_str(), 1);
  if (s.memory >= 0) limit(RLIMIT_AS, s.memory);
  if (s.largest_file >= 0) {
    limit(RLIMIT_FSIZE, s.largest_file);
    ::signal(SIGXFSZ, SIG_IGN);  // inherited through exec: the write fails instead of ending the process
  }
  ::execvp(argv[0], argv);
  ::_exit(kExecFailed);
}

}  // namespace

TempFolder::TempFolder() {
  std::string pattern = testing::TempDir() + "siamese_cli_XXXXXX";
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp " + pattern);
  path_ = pattern;
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

Process::Process(const Args& command, const Surroundings& surroundings)
    : out_(surroundings.out.empty() ? files_ / "out" : surroundings.out) {
  std::vector<char*> argv;
  for (const std::string& arg : command) argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);
  const std::string err = files_ / "err";
  pid_ = ::fork();
  if (pid_ < 0) throw std::runtime_error("fork");
  if (pid_ == 0) become(argv.data(), surroundings, out_.c_str(), err.c_str());
  ::setpgid(pid_, pid_);  // here too: whoever comes first, `send` finds the group
}

Process::~Process() {
  if (!running()) return;
  send(SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

bool Process::running() {
  if (!ended_) ended_ = ::waitpid(pid_, &wait_status_, WNOHANG) == pid_;
  return !ended_;
}

void Process::send(int signal) const { ::kill(-pid_, signal); }

std::string Process::out() const { return fs::is_regular_file(out_) ? read(out_) : ""; }
std::string Process::err() const { return read(files_ / "err"); }

bool Process::wait_until(const std::function<bool()>& condition, double seconds) {
  const auto start = Clock::now();
  while (before(start, seconds)) {
    if (condition()) return true;
    if (!running()) return condition();
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return false;
}

Outcome Process::wait(double limit) {
  Outcome result;
  const auto start = Clock::now();
  while (running() && before(start, limit)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (running()) {
    result.timed_out = true;
    send(SIGKILL);
    ended_ = ::waitpid(pid_, &wait_status_, 0) == pid_;
  }
  if (WIFEXITED(wait_status_)) result.status = WEXITSTATUS(wait_status_);
  if (WIFSIGNALED(wait_status_)) result.signal = WTERMSIG(wait_status_);
  result.out = out();
  result.err = err();
  return result;
}

Outcome run(const Args& command, const Surroundings& surroundings, double limit) {
  return Process(command, surroundings).wait(limit);
}

Args siamese_command(const Args& args) { return Args{SIAMESE_BINARY} + args; }

Outcome run_siamese(const Args& args, const Surroundings& surroundings) {
  return run(siamese_command(args), surroundings);
}

Args operator+(Args a, const Args& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::string shown(const Args& args) {
  std::string text = "siamese";
  for (const std::string& arg : args) text += " '" + arg + "'";
  return text;
}

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void write(const std::string& path, const std::string& content) {
  std::ofstream file(path, std::ios::binary);
  file << content;
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) all.push_back(line);
  return all;
}

std::map<std::string, std::string> fingerprint(const std::string& path) {
  std::map<std::string, std::string> all;
  for (const auto& entry : fs::recursive_directory_iterator(path)) {
    const std::string name = entry.path().lexically_relative(path).string();
    all[name] = entry.is_symlink()        ? "link"
                : entry.is_directory()    ? "folder"
                : entry.is_regular_file() ? hash_file(entry.path().string())
                                          : "other";
  }
  return all;
}

std::vector<std::string> timeless_metrics(const std::string& run) {
  std::vector<std::string> all;
  for (const std::string& line : lines(read(run + "/metrics.jsonl")))
    all.push_back(line.substr(0, line.find(", \"tokens_per_s\"")));
  return all;
}

Args tiny_train(const std::string& out, int steps, int checkpoint_every) {
  Args args = {"train", "lm-pico", "--threads", "1", "--out", out};
  for (const std::string& key :
       {std::string("model.d_model=16"), std::string("model.n_layers=1"), std::string("train.sequence_length=16"),
        std::string("train.warmup_steps=1"), std::string("eval.batches=1"), "train.steps=" + std::to_string(steps),
        "checkpoint.every=" + std::to_string(checkpoint_every)}) {
    args.insert(args.end(), {"--set", key});
  }
  return args;
}

}  // namespace siamese::test
