#include "images/image_loader.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "images/sample_maker.h"
#include "util/clock.h"
#include "util/error.h"

namespace siamese {
namespace {

// Batches in the making or waiting; images are large, and one that is finished and one half done ride out a slow file.
constexpr size_t kDepth = 3;
constexpr size_t kNamesKept = 10;

/// A batch on its way: workers fill the rows of its images, the last one to finish mixes them.
struct Slot {
  enum class Phase { empty, preparing, open, done };
  Phase phase = Phase::empty;
  ImageBatch batch;
  int64_t left = 0;                                  // images still to be made
  std::vector<std::pair<int64_t, int64_t>> skipped;  // (image of the batch, index) of what could not be read
  int64_t failed = 0;                                // first image of the batch that failed, where there is an error
  std::exception_ptr error;
};

}  // namespace

struct ImageLoader::State {
  State(std::shared_ptr<const ImageSet> set, const DataConfig& data, const AugmentConfig& augment,
        const ImageLoaderOptions& options)
      : maker(std::move(set), data, augment, options),
        end(options.end_step),
        delivered(options.first_step),
        cursor(options.first_step) {
    const int64_t workers = worker_count(data.workers);
    // Small shares, so that all workers end a batch at about the same time, but not so small that they queue for the
    // lock where an image takes a few microseconds.
    share = std::clamp<int64_t>(maker.images() / (8 * workers), 1, 16);
    threads.reserve(static_cast<size_t>(workers));
    for (int64_t i = 0; i < workers; ++i) {
      try {
        threads.emplace_back([this] { work(); });
      } catch (const std::system_error& error) {
        if (threads.empty()) fail("data.workers: cannot start a thread: {}", error.what());
        break;  // fewer are slower, not wrong
      }
    }
  }

  ~State() {
    {
      const std::lock_guard lock(mutex);
      stop = true;
    }
    to_do.notify_all();
    for (std::thread& thread : threads) thread.join();
  }

  Slot& slot_of(int64_t step) { return slots[static_cast<size_t>(step) % kDepth]; }

  bool claimable() {
    if (cursor >= end || cursor >= delivered + static_cast<int64_t>(kDepth)) return false;
    return slot_of(cursor).phase == Slot::Phase::empty || slot_of(cursor).phase == Slot::Phase::open;
  }

  void work() {
    std::unique_lock lock(mutex);
    while (true) {
      to_do.wait(lock, [this] { return stop || claimable(); });
      if (stop) return;
      Slot& slot = slot_of(cursor);
      if (slot.phase == Slot::Phase::empty) {
        open(slot, lock);
        continue;
      }
      const int64_t first = claimed, count = std::min(share, maker.images() - first);
      claimed += count;
      if (claimed == maker.images()) {
        claimed = 0;
        ++cursor;
      }
      lock.unlock();
      for (int64_t i = first; i < first + count && !stop; ++i) make(slot, i);
      lock.lock();
      slot.left -= count;
      if (slot.left == 0 && !stop) finish(slot, lock);
    }
  }

  // Taking memory for a batch of hundreds of megabytes takes a while: not under the lock.
  void open(Slot& slot, std::unique_lock<std::mutex>& lock) {
    slot.phase = Slot::Phase::preparing;
    slot.left = maker.images();
    slot.error = nullptr;
    slot.skipped.clear();
    slot.batch = {};
    if (!spare.empty()) {
      slot.batch = std::move(spare.back());
      spare.pop_back();
    }
    slot.batch.step = cursor;
    lock.unlock();
    std::exception_ptr error;
    try {
      maker.prepare(slot.batch);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    slot.phase = Slot::Phase::open;
    if (error) {
      slot.error = error;
      slot.phase = Slot::Phase::done;
      ++cursor;
      ready.notify_all();
    }
    to_do.notify_all();
  }

  void make(Slot& slot, int64_t image) {
    std::vector<int64_t> skipped;
    std::exception_ptr error;
    try {
      maker.make(slot.batch, image, skipped, stop);
    } catch (...) {
      error = std::current_exception();
    }
    if (skipped.empty() && !error) return;
    const std::lock_guard lock(mutex);
    for (const int64_t index : skipped) slot.skipped.emplace_back(image, index);
    // Of several the first is reported, whichever worker was faster.
    if (error && (!slot.error || image < slot.failed)) {
      slot.error = error;
      slot.failed = image;
    }
  }

  void finish(Slot& slot, std::unique_lock<std::mutex>& lock) {
    if (!slot.error) {
      lock.unlock();
      std::exception_ptr error;
      try {
        maker.mix(slot.batch);
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      slot.error = error;
    }
    slot.phase = Slot::Phase::done;
    ready.notify_all();
  }

  // Batches before a bad one are still delivered: a run fails at the step whose data is bad.
  ImageBatch next() {
    const double start = seconds_now();
    std::unique_lock lock(mutex);
    if (delivered >= end) fail("data: no batch left, the last step is {}", end - 1);
    Slot& slot = slot_of(delivered);
    ready.wait(lock, [&] { return slot.phase == Slot::Phase::done; });
    waited += seconds_now() - start;
    if (slot.error) std::rethrow_exception(slot.error);
    std::sort(slot.skipped.begin(), slot.skipped.end());
    for (const auto& [image, index] : slot.skipped) {
      if (left_out.insert(index).second && names.size() < kNamesKept) names.push_back(maker.set().name(index));
    }
    ImageBatch batch = std::move(slot.batch);
    slot.phase = Slot::Phase::empty;
    ++delivered;
    lock.unlock();
    to_do.notify_all();
    return batch;
  }

  SampleMaker maker;
  const int64_t end;
  int64_t share = 1;

  mutable std::mutex mutex;
  std::condition_variable to_do, ready;
  std::array<Slot, kDepth> slots;
  std::vector<ImageBatch> spare;
  int64_t delivered;            // the step that `next` hands out next
  int64_t cursor, claimed = 0;  // the step being made, and how many of its images are taken
  std::set<int64_t> left_out;
  std::vector<std::string> names;
  double waited = 0;
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
};

ImageLoader::ImageLoader(std::shared_ptr<const ImageSet> set, const DataConfig& data, const AugmentConfig& augment,
                         const ImageLoaderOptions& options)
    : state_(std::make_unique<State>(std::move(set), data, augment, options)) {}

ImageLoader::~ImageLoader() = default;

ImageBatch ImageLoader::next() { return state_->next(); }

bool ImageLoader::ready() {
  const std::lock_guard lock(state_->mutex);
  const Slot& slot = state_->slot_of(state_->delivered);
  return state_->delivered < state_->end && slot.phase == Slot::Phase::done && !slot.error;
}

void ImageLoader::recycle(ImageBatch&& batch) {
  const std::lock_guard lock(state_->mutex);
  if (state_->spare.size() < kDepth) state_->spare.push_back(std::move(batch));
}

LoaderTimes ImageLoader::times() const {
  const std::lock_guard lock(state_->mutex);
  return {state_->maker.decode_seconds(), state_->maker.augment_seconds(), state_->waited};
}

int64_t ImageLoader::skipped() const {
  const std::lock_guard lock(state_->mutex);
  return static_cast<int64_t>(state_->left_out.size());
}

std::vector<std::string> ImageLoader::skipped_names() const {
  const std::lock_guard lock(state_->mutex);
  return state_->names;
}

}  // namespace siamese
