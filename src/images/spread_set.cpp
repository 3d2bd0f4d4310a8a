#include "images/image_set.h"

namespace siamese {
namespace {

class SpreadSet final : public ImageSet {
 public:
  SpreadSet(std::shared_ptr<const ImageSet> set, int64_t count) : set_(std::move(set)), count_(count) {}

  int64_t size() const override { return count_; }
  int64_t label(int64_t index) const override { return set_->label(whole(index)); }
  Image load(int64_t index, int least_side) const override { return set_->load(whole(index), least_side); }
  Image load_part(int64_t index, int least_side, const Needed& needed) const override {
    return set_->load_part(whole(index), least_side, needed);
  }
  std::string name(int64_t index) const override { return set_->name(whole(index)); }
  const std::vector<std::string>& class_names() const override { return set_->class_names(); }
  std::string describe() const override { return std::to_string(count_) + " of " + set_->describe(); }
  int64_t decoded_bytes(int least_side) const override {
    return set_->decoded_bytes(least_side) / set_->size() * count_;
  }
  bool in_memory() const override { return set_->in_memory(); }
  bool pictures() const override { return set_->pictures(); }
  void values(int64_t index, std::span<float> out) const override { set_->values(whole(index), out); }

 private:
  /// floor(index · size / count), each from the middle of its share.
  int64_t whole(int64_t index) const { return (2 * index + 1) * set_->size() / (2 * count_); }

  std::shared_ptr<const ImageSet> set_;
  int64_t count_;
};

}  // namespace

std::shared_ptr<const ImageSet> spread_over(std::shared_ptr<const ImageSet> set, int64_t count) {
  if (count <= 0 || count >= set->size()) return set;
  return std::make_shared<SpreadSet>(std::move(set), count);
}

}  // namespace siamese
