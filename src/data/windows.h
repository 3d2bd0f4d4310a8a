// Cutting files into windows, and the order in which training sees them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace siamese {

/// Ids begin … end-1 of one file.
struct Range {
  int64_t begin, end;
};

struct Window {
  size_t file;    // which range
  int64_t begin;  // first id
  int64_t count;  // ids, at most length + 1
};

/// Windows of length + 1 ids over ranges, none across two of them. Neighbours share one id (the last target of one is
/// the first input of the next), so every id of a range but its first is a target exactly once.
class Windows {
 public:
  /// The rest of a range that fills no window is dropped (training: all samples have one shape) or kept as a short
  /// window of at least two ids (validation: every token counts).
  enum class Rest { drop, keep };

  Windows(std::vector<Range> ranges, int64_t length, Rest rest);

  int64_t size() const { return ends_.empty() ? 0 : ends_.back(); }
  Window operator[](int64_t index) const;

 private:
  std::vector<Range> ranges_;
  std::vector<int64_t> ends_;  // windows up to and with range i
  int64_t length_;
};

/// Where training sample `index` falls when an epoch has `chunks` chunks: each once an epoch, in an order of its own
/// for every epoch if shuffled.
struct TrainingTurn {
  int64_t epoch, chunk;
};
TrainingTurn training_turn(int64_t index, int64_t chunks, uint64_t seed, bool shuffle);

/// First id of the validation tail of `count` ids: the last 5 %, but at least `least`.
int64_t validation_begin(int64_t count, int64_t least);

/// Guards what callers hand to `sample` and `validation`: a window's worth of room and an index in [0, end).
void check_request(int64_t index, int64_t end, std::span<const int64_t> out, int64_t sequence_length);

}  // namespace siamese
