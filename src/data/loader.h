// Batches prepared ahead in a background thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "data/source.h"

namespace siamese {

struct Batch {
  int64_t step = 0;
  std::vector<int64_t> ids;  // [batch_size, sequence_length + 1], row-major
};

/// Batch of step s holds samples s·batch_size … (s+1)·batch_size - 1. `next` throws what the source threw.
class Loader {
 public:
  Loader(const Source& source, int64_t batch_size, int64_t sequence_length, int64_t first_step, int64_t end_step);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  Batch next();
  /// Whether `next` has a batch at once: it neither waits nor throws then.
  bool ready();
  /// Seconds `next` has spent waiting since construction.
  double waited() const { return waited_; }

 private:
  void work();

  const Source& source_;
  const int64_t batch_size_, width_, end_step_;
  int64_t produced_;
  std::deque<Batch> ready_;
  std::exception_ptr error_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  double waited_ = 0;
  std::thread thread_;
};

}  // namespace siamese
