#include <charconv>

#include "images/image_set.h"
#include "util/error.h"

namespace siamese {
namespace {

class NumberedSet final : public ImageSet {
 public:
  NumberedSet(std::shared_ptr<const ImageSet> set, std::vector<int64_t> numbers, int64_t classes)
      : set_(std::move(set)), numbers_(std::move(numbers)) {
    for (int64_t c = 0; c < classes; ++c) names_.push_back(std::to_string(c));
  }

  int64_t size() const override { return set_->size(); }
  int64_t label(int64_t index) const override { return numbers_[static_cast<size_t>(set_->label(index))]; }
  Image load(int64_t index, int least_side) const override { return set_->load(index, least_side); }
  Image load_part(int64_t index, int least_side, const Needed& needed) const override {
    return set_->load_part(index, least_side, needed);
  }
  std::string name(int64_t index) const override { return set_->name(index); }
  const std::vector<std::string>& class_names() const override { return names_; }
  std::string describe() const override { return set_->describe(); }
  int64_t decoded_bytes(int least_side) const override { return set_->decoded_bytes(least_side); }
  bool in_memory() const override { return set_->in_memory(); }

 private:
  std::shared_ptr<const ImageSet> set_;
  std::vector<int64_t> numbers_;  // by the set's own labels
  std::vector<std::string> names_;
};

}  // namespace

std::shared_ptr<const ImageSet> classes_of_model(std::shared_ptr<const ImageSet> set, int64_t classes,
                                                 const std::string& origin) {
  std::vector<int64_t> numbers;
  for (const std::string& name : set->class_names()) {
    int64_t n = -1;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), n);
    if (error != std::errc() || end != name.data() + name.size() || n < 0 || n >= classes) break;
    numbers.push_back(n);
  }
  if (!numbers.empty() && numbers.size() == set->class_names().size())
    return std::make_shared<NumberedSet>(std::move(set), std::move(numbers), classes);
  const auto found = static_cast<int64_t>(set->class_names().size());
  if (found != classes)
    fail("{}: has {} class folders, the model knows {} classes: name folders by the classes' numbers, or have them all",
         origin, found, classes);
  return set;
}

}  // namespace siamese
