#include "data/loader.h"

#include <chrono>

#include "util/error.h"

namespace siamese {
namespace {

// Enough to ride out a page fault or a busy core; more would only hold memory.
constexpr size_t kDepth = 4;

}  // namespace

Loader::Loader(const Source& source, int64_t batch_size, int64_t sequence_length, int64_t first_step, int64_t end_step)
    : source_(source),
      batch_size_(batch_size),
      width_(sequence_length + 1),
      end_step_(end_step),
      produced_(first_step),
      thread_([this] { work(); }) {}

Loader::~Loader() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

// Only this thread writes produced_, so it may read it without the lock.
void Loader::work() {
  try {
    while (produced_ < end_step_) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return stop_ || ready_.size() < kDepth; });
        if (stop_) return;
      }
      Batch batch;
      batch.step = produced_;
      batch.ids.resize(static_cast<size_t>(batch_size_ * width_));
      for (int64_t row = 0; row < batch_size_; ++row) {
        const std::span<int64_t> ids(batch.ids);
        source_.sample(produced_ * batch_size_ + row,
                       ids.subspan(static_cast<size_t>(row * width_), static_cast<size_t>(width_)));
      }
      const std::lock_guard lock(mutex_);
      ready_.push_back(std::move(batch));
      ++produced_;
      changed_.notify_all();
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    error_ = std::current_exception();
    changed_.notify_all();
  }
}

// Batches made before an error are still delivered: a run fails at the step whose data is bad, not up to four earlier.
Batch Loader::next() {
  const auto start = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !ready_.empty() || error_ || produced_ >= end_step_; });
  waited_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (ready_.empty()) {
    if (error_) std::rethrow_exception(error_);
    fail("data: no batch left, the last step is {}", end_step_ - 1);
  }
  Batch batch = std::move(ready_.front());
  ready_.pop_front();
  lock.unlock();
  changed_.notify_all();
  return batch;
}

bool Loader::ready() {
  const std::lock_guard lock(mutex_);
  return !ready_.empty();
}

}  // namespace siamese
