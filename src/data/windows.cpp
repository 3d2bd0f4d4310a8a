#include "data/windows.h"

#include <algorithm>

#include "data/permutation.h"
#include "util/error.h"

namespace siamese {

// A range of n ids has n - 1 targets and a window up to `length` of them: ⌊(n-1)/length⌋ full windows, ⌈(n-1)/length⌉
// with the rest.
Windows::Windows(std::vector<Range> ranges, int64_t length, Rest rest) : ranges_(std::move(ranges)), length_(length) {
  int64_t total = 0;
  for (const Range& range : ranges_) {
    const int64_t targets = std::max<int64_t>(0, range.end - range.begin - 1);
    total += (targets + (rest == Rest::keep ? length - 1 : 0)) / length;
    ends_.push_back(total);
  }
}

Window Windows::operator[](int64_t index) const {
  const auto file = static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), index) - ends_.begin());
  const Range& range = ranges_.at(file);
  const int64_t first = file == 0 ? 0 : ends_[file - 1];
  const int64_t begin = range.begin + (index - first) * length_;
  return {file, begin, std::min(length_ + 1, range.end - begin)};
}

TrainingTurn training_turn(int64_t index, int64_t chunks, uint64_t seed, bool shuffle) {
  const int64_t epoch = index / chunks, place = index % chunks;
  if (!shuffle) return {epoch, place};
  const RandomKey key(seed, static_cast<uint64_t>(epoch), kDataOrder);
  return {epoch, static_cast<int64_t>(permute(static_cast<uint64_t>(place), static_cast<uint64_t>(chunks), key))};
}

int64_t validation_begin(int64_t count, int64_t least) { return count - std::max(count / 20, least); }

void check_request(int64_t index, int64_t end, std::span<const int64_t> out, int64_t sequence_length) {
  if (index < 0 || index >= end) fail("data: window {} is not in [0, {})", index, end);
  if (static_cast<int64_t>(out.size()) != sequence_length + 1) {
    fail("data: room for {} ids, a window has {} (sequence_length + 1)", out.size(), sequence_length + 1);
  }
}

}  // namespace siamese
