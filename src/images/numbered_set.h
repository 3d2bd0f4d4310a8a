// Which of a model's classes the classes of a set are.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "images/image_set.h"

namespace siamese {

/// What a model tells apart. A label is a place in the order of its training data's classes, which numbers in their
/// names do not follow: 1, 10, 11, 2.
struct ModelClasses {
  int64_t count = 0;
  std::vector<std::string> names;  // by label, as `class_name` writes them; empty: unknown. Labels beyond have no name.

  /// One a label: the name; the number where there is none ("class 12" where another one is called 12).
  std::vector<std::string> all_names() const;
};

/// The name of a class as checkpoints keep it: a folder's, which may be any bytes, as text.
std::string class_name(const std::string& folder);

/// The set with the model's labels and class names. Classes are found by their names; as numbers of labels (which is
/// what `sample --singles` writes) only where no name of the model is among them. Without any names of the model they
/// are numbers, or all of its classes in order. `describe` says which. Throws Error naming a class that is neither;
/// `origin` is for the message.
std::shared_ptr<const ImageSet> classes_of_model(std::shared_ptr<const ImageSet> set, const ModelClasses& model,
                                                 const std::string& origin);

}  // namespace siamese
