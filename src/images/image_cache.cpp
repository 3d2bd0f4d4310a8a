// Decoded images kept in memory, each from the first time it is asked for.
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <limits>
#include <utility>

#include "images/image_set.h"
#include "util/error.h"

namespace siamese {
namespace {

// What a container may use can be far less than the machine has.
int64_t memory_limit() {
  const int64_t pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGE_SIZE);
  int64_t limit = pages > 0 && page > 0 ? pages * page : 0;
  std::ifstream group("/sys/fs/cgroup/memory.max");  // "max" where there is no limit: reading a number fails then
  if (int64_t allowed = 0; group >> allowed && allowed > 0 && (limit == 0 || allowed < limit)) limit = allowed;
  return limit;
}

class CachedSet final : public ImageSet {
 public:
  CachedSet(std::shared_ptr<const ImageSet> set, int least_side, int64_t most_bytes)
      : set_(std::move(set)),
        least_side_(least_side),
        most_bytes_(most_bytes),
        kept_(std::make_unique<std::atomic<const Image*>[]>(static_cast<size_t>(set_->size()))) {}
  CachedSet(const CachedSet&) = delete;
  CachedSet& operator=(const CachedSet&) = delete;
  ~CachedSet() override {
    for (int64_t i = 0; i < set_->size(); ++i) delete kept_[static_cast<size_t>(i)].load();
  }

  int64_t size() const override { return set_->size(); }
  int64_t label(int64_t index) const override { return set_->label(index); }
  std::string name(int64_t index) const override { return set_->name(index); }
  const std::vector<std::string>& class_names() const override { return set_->class_names(); }
  std::string describe() const override { return set_->describe(); }
  int64_t decoded_bytes(int least_side) const override { return set_->decoded_bytes(least_side); }
  bool in_memory() const override { return true; }

  // No lock: an entry is set once and stays. Two threads may decode the same image at the same time; one copy is kept.
  Image load(int64_t index, int least_side) const override {
    if (least_side != least_side_ || index < 0 || index >= set_->size()) return set_->load(index, least_side);
    std::atomic<const Image*>& entry = kept_[static_cast<size_t>(index)];
    if (const Image* image = entry.load(std::memory_order_acquire)) return *image;
    Image image = set_->load(index, least_side);
    const auto bytes = static_cast<int64_t>(image.pixels.size());
    // The estimate that led here came from a few images only; beyond the limit the rest is decoded every time.
    if (bytes_.fetch_add(bytes) + bytes <= most_bytes_) {
      auto copy = std::make_unique<const Image>(image);
      const Image* none = nullptr;
      if (entry.compare_exchange_strong(none, copy.get(), std::memory_order_acq_rel)) {
        copy.release();
        return image;
      }
    }
    bytes_.fetch_sub(bytes);
    return image;
  }

 private:
  std::shared_ptr<const ImageSet> set_;
  int least_side_;
  int64_t most_bytes_;
  std::unique_ptr<std::atomic<const Image*>[]> kept_;
  mutable std::atomic<int64_t> bytes_ = 0;
};

}  // namespace

std::shared_ptr<const ImageSet> with_cache(std::shared_ptr<const ImageSet> set, const std::string& mode,
                                           int least_side) {
  if (mode != "auto" && mode != "on" && mode != "off") fail("data.cache: {}, expected auto, on or off", mode);
  if (mode == "off" || set->in_memory()) return set;
  int64_t most = std::numeric_limits<int64_t>::max();
  if (mode == "auto") {
    most = memory_limit() / 4;
    const int64_t bytes = set->decoded_bytes(least_side);
    if (bytes == 0 || bytes > most) return set;
  }
  return std::make_shared<CachedSet>(std::move(set), least_side, most);
}

}  // namespace siamese
