#include "images/numbered_set.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "images/image_set_around.h"
#include "util/error.h"
#include "util/text.h"

namespace siamese {
namespace {

class NumberedSet final : public ImageSetAround {
 public:
  NumberedSet(std::shared_ptr<const ImageSet> set, std::vector<int64_t> labels, std::vector<std::string> names,
              std::string note)
      : ImageSetAround(std::move(set)), labels_(std::move(labels)), names_(std::move(names)), note_(std::move(note)) {}

  int64_t label(int64_t index) const override { return labels_[static_cast<size_t>(set_->label(index))]; }
  const std::vector<std::string>& class_names() const override { return names_; }
  std::string describe() const override { return set_->describe() + note_; }

 private:
  std::vector<int64_t> labels_;  // by the set's own labels
  std::vector<std::string> names_;
  std::string note_;
};

std::optional<int64_t> number_below(int64_t limit, const std::string& text) {
  int64_t n = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || end != text.data() + text.size() || n < 0 || n >= limit) return std::nullopt;
  return n;
}

std::optional<int64_t> place_in(const std::vector<std::string>& names, const std::string& name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return found - names.begin();
}

/// "bird, cat, dog, … (10)".
std::string a_few(const std::vector<std::string>& names) {
  constexpr size_t kShown = 5;
  std::vector<std::string> shown(names.begin(), names.begin() + static_cast<int64_t>(std::min(names.size(), kShown)));
  for (std::string& name : shown) name = printable(name, 40);
  if (names.size() > kShown) shown.push_back(fmt::format("… ({})", names.size()));
  return join(shown, ", ");
}

/// Without names to go by, as for checkpoints that have none.
std::shared_ptr<const ImageSet> without_names(std::shared_ptr<const ImageSet> set, const ModelClasses& model,
                                              const std::string& origin) {
  const char* const kWhy = ", since the checkpoint holds no class names";
  const std::vector<std::string>& found = set->class_names();
  std::vector<int64_t> labels;
  for (const std::string& name : found)
    if (const auto n = number_below(model.count, name)) labels.push_back(*n);
  if (labels.size() == found.size())
    return std::make_shared<NumberedSet>(std::move(set), labels, model.all_names(),
                                         fmt::format("; folders taken for class numbers{}", kWhy));
  if (static_cast<int64_t>(found.size()) != model.count)
    fail("{}: has {} class folders, the model knows {} classes: name folders by the classes' numbers, or have them all",
         origin, found.size(), model.count);
  std::vector<std::string> names;
  labels.clear();
  for (const std::string& name : found) {
    labels.push_back(static_cast<int64_t>(labels.size()));
    names.push_back(class_name(name));
  }
  return std::make_shared<NumberedSet>(std::move(set), labels, names,
                                       fmt::format("; folders taken for the classes in order{}", kWhy));
}

}  // namespace

std::string class_name(const std::string& folder) { return printable(folder, SIZE_MAX); }

std::vector<std::string> ModelClasses::all_names() const {
  std::vector<std::string> all = names;
  for (int64_t c = static_cast<int64_t>(all.size()); c < count; ++c) {
    const std::string number = std::to_string(c);
    all.push_back(place_in(names, number) ? "class " + number : number);
  }
  return all;
}

std::shared_ptr<const ImageSet> classes_of_model(std::shared_ptr<const ImageSet> set, const ModelClasses& model,
                                                 const std::string& origin) {
  if (model.names.empty()) return without_names(std::move(set), model, origin);
  std::vector<std::string> found;
  for (const std::string& name : set->class_names()) found.push_back(class_name(name));
  const std::vector<std::string> all = model.all_names();
  if (found == all) return set;
  const bool by_name =
      std::any_of(found.begin(), found.end(), [&](const std::string& name) { return place_in(model.names, name); });
  std::vector<int64_t> labels;
  for (const std::string& name : found) {
    const auto label = by_name ? place_in(all, name) : number_below(model.count, name);
    if (!label)
      fail("{}: '{}' is none of the model's classes: {}{}", origin, name, a_few(all),
           by_name ? "" : fmt::format("; nor the number of one, 0 … {}", model.count - 1));
    labels.push_back(*label);
  }
  return std::make_shared<NumberedSet>(std::move(set), labels, all,
                                       by_name ? "; classes by name" : "; folders taken for class numbers");
}

}  // namespace siamese
