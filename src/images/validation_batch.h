// Pictures that an evaluation could not read and left out (data.corrupt: skip).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "images/image_set.h"

namespace siamese {

/// Counts each once, however often and from whatever thread it is asked for.
class UnreadPictures {
 public:
  void add(int64_t index, const std::string& name);
  int64_t count() const;
  /// "2 images could not be read and were left out: a.png, b.png", the first ten of the set's order by name; "" if all
  /// could be read. `what`: image, validation image.
  std::string describe(const std::string& what = "image") const;

 private:
  mutable std::mutex mutex_;
  std::map<int64_t, std::string> names_;
};

/// The set; what cannot be read of it is added to `unread` and thrown as before.
std::shared_ptr<const ImageSet> watched(std::shared_ptr<const ImageSet> set, std::shared_ptr<UnreadPictures> unread);

}  // namespace siamese
