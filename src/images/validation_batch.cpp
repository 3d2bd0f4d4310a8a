#include "images/validation_batch.h"

#include <algorithm>
#include <exception>
#include <span>
#include <system_error>
#include <thread>

#include "images/image_set_around.h"
#include "images/sample_maker.h"
#include "util/error.h"
#include "util/text.h"

namespace siamese {
namespace {

/// Calls `make` with 0 … count - 1, from this thread and workers - 1 others. `make` must not throw.
template <class Make>
void share_out(int64_t count, int64_t workers, const Make& make) {
  std::atomic<int64_t> next = 0;
  const auto work = [&] {
    for (int64_t i = next++; i < count; i = next++) make(i);
  };
  std::vector<std::thread> threads;
  try {
    for (int64_t i = 1; i < std::min(workers, count); ++i) threads.emplace_back(work);
  } catch (const std::system_error&) {
    // Those that could be started, or this one alone, do it as well.
  }
  work();
  for (std::thread& thread : threads) thread.join();
}

class WatchedSet final : public ImageSetAround {
 public:
  WatchedSet(std::shared_ptr<const ImageSet> set, std::shared_ptr<UnreadPictures> unread)
      : ImageSetAround(std::move(set)), unread_(std::move(unread)) {}

  Image load(int64_t index, int least_side) const override {
    return watch(index, [&] { return set_->load(index, least_side); });
  }
  Image load_part(int64_t index, int least_side, const Needed& needed) const override {
    return watch(index, [&] { return set_->load_part(index, least_side, needed); });
  }
  void values(int64_t index, std::span<float> out) const override {
    watch(index, [&] { set_->values(index, out); });
  }

 private:
  template <class Read>
  auto watch(int64_t index, const Read& read) const -> decltype(read()) {
    try {
      return read();
    } catch (const Error&) {
      unread_->add(index, set_->name(index));
      throw;
    }
  }

  std::shared_ptr<UnreadPictures> unread_;
};

}  // namespace

void UnreadPictures::add(int64_t index, const std::string& name) {
  const std::lock_guard lock(mutex_);
  names_.emplace(index, printable(name, SIZE_MAX));
}

int64_t UnreadPictures::count() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(names_.size());
}

std::string UnreadPictures::describe(const std::string& what) const {
  constexpr size_t kNamed = 10;
  const std::lock_guard lock(mutex_);
  if (names_.empty()) return "";
  std::vector<std::string> first;
  for (auto it = names_.begin(); it != names_.end() && first.size() < kNamed; ++it) first.push_back(it->second);
  if (names_.size() > kNamed) first.push_back("…");
  return fmt::format("{} {}{} could not be read and {} left out: {}", names_.size(), what,
                     names_.size() == 1 ? "" : "s", names_.size() == 1 ? "was" : "were", join(first, ", "));
}

std::shared_ptr<const ImageSet> watched(std::shared_ptr<const ImageSet> set, std::shared_ptr<UnreadPictures> unread) {
  return std::make_shared<WatchedSet>(std::move(set), std::move(unread));
}

int64_t worker_count(int64_t workers) {
  return workers > 0 ? workers : std::max<int64_t>(1, std::thread::hardware_concurrency());
}

ImageBatch validation_batch(const ImageSet& set, const Transform& transform, int64_t first, int64_t count, int size,
                            int channels, int64_t workers, bool skip_corrupt) {
  if (first < 0 || count < 0 || first + count > set.size()) {
    fail("validation images {} … {} of {}", first, first + count - 1, set.size());
  }
  const size_t values = static_cast<size_t>(channels) * static_cast<size_t>(size) * static_cast<size_t>(size);
  ImageBatch batch;
  batch.images.resize(static_cast<size_t>(count) * values);
  batch.labels.resize(static_cast<size_t>(count));
  std::vector<std::exception_ptr> errors(static_cast<size_t>(count));
  const int least_side = transform.least_side();
  share_out(count, worker_count(workers), [&](int64_t i) {
    const auto row = static_cast<size_t>(i);
    try {
      batch.labels[row] = set.label(first + i);
      const std::span<float> out = std::span(batch.images).subspan(row * values, values);
      set.pictures() ? transform.evaluate(set.load(first + i, least_side), out) : set.values(first + i, out);
    } catch (...) {
      errors[row] = std::current_exception();
    }
  });

  size_t kept = 0;
  for (size_t row = 0; row < errors.size(); ++row) {
    try {
      if (errors[row]) std::rethrow_exception(errors[row]);
    } catch (const Error& error) {
      if (!skip_corrupt) throw Error(unreadable(set, first + static_cast<int64_t>(row), error.what()));
      continue;
    }
    if (kept != row) {
      std::copy_n(batch.images.data() + row * values, values, batch.images.data() + kept * values);
      batch.labels[kept] = batch.labels[row];
    }
    ++kept;
  }
  batch.images.resize(kept * values);
  batch.labels.resize(kept);
  return batch;
}

}  // namespace siamese
