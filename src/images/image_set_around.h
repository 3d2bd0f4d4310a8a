// A set that is another one, but for what a derived class says otherwise.
#pragma once

#include <utility>

#include "images/image_set.h"

namespace siamese {

class ImageSetAround : public ImageSet {
 public:
  int64_t size() const override { return set_->size(); }
  int64_t label(int64_t index) const override { return set_->label(index); }
  Image load(int64_t index, int least_side) const override { return set_->load(index, least_side); }
  Image load_part(int64_t index, int least_side, const Needed& needed) const override {
    return set_->load_part(index, least_side, needed);
  }
  std::string name(int64_t index) const override { return set_->name(index); }
  const std::vector<std::string>& class_names() const override { return set_->class_names(); }
  std::string describe() const override { return set_->describe(); }
  int64_t decoded_bytes(int least_side) const override { return set_->decoded_bytes(least_side); }
  bool in_memory() const override { return set_->in_memory(); }
  bool pictures() const override { return set_->pictures(); }
  void values(int64_t index, std::span<float> out) const override { set_->values(index, out); }

 protected:
  explicit ImageSetAround(std::shared_ptr<const ImageSet> set) : set_(std::move(set)) {}

  std::shared_ptr<const ImageSet> set_;
};

}  // namespace siamese
