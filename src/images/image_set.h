// Where labelled pictures come from. Reading one is a pure function of its index and safe from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "images/image.h"
#include "recipe/recipe.h"

namespace siamese {

class ImageSet {
 public:
  virtual ~ImageSet() = default;
  virtual int64_t size() const = 0;
  virtual int64_t label(int64_t index) const = 0;
  /// `least_side`: as DecodeOptions has it.
  virtual Image load(int64_t index, int least_side = 0) const = 0;
  /// The same, but pixels that are not `needed` may be black.
  virtual Image load_part(int64_t index, int least_side, const Needed& /*needed*/) const {
    return load(index, least_side);
  }
  /// Of a sample, for messages: a path, or a file and a number.
  virtual std::string name(int64_t index) const = 0;
  virtual const std::vector<std::string>& class_names() const = 0;
  /// One line: what it is, how much of it there is.
  virtual std::string describe() const = 0;
  /// Bytes all of it takes decoded at `least_side`, estimated; 0: unknown.
  virtual int64_t decoded_bytes(int least_side) const = 0;
  /// Whether `load` only copies from memory, so that a cache would hold everything twice.
  virtual bool in_memory() const { return false; }
  /// False: samples are no pictures but a model's input as it is (latents), from `values` instead of `load`.
  virtual bool pictures() const { return true; }
  virtual void values(int64_t /*index*/, std::span<float> /*out*/) const {}
};

struct ImageSets {
  std::shared_ptr<const ImageSet> train, validation;
};

/// The sets a recipe asks for: class folders of JPEG and PNG (`train` and `val` or `test` below data.images are taken
/// as the split if they are there), CIFAR-10's binary files, IDX files (train-images-idx3-ubyte[.gz] …), drawn shapes.
/// Throws Error naming file and key on anything unusable.
ImageSets make_image_sets(const DataConfig& data, int64_t image_size, uint64_t seed);

/// All images of a folder, whatever lies in class folders, for evaluation and comparison. Without class folders: the
/// images of the folder itself, as one class of its name.
std::shared_ptr<const ImageSet> make_folder_set(const std::string& folder);

/// `count` of a set's samples, evenly spread over its order, in which classes stand one after the other; all of them
/// where it has no more, or where `count` is 0.
std::shared_ptr<const ImageSet> spread_over(std::shared_ptr<const ImageSet> set, int64_t count);

/// The set with its decoded images kept in memory by data.cache `mode`: on, off, or auto (if all of it takes less than
/// a quarter of the machine's memory). Only images asked for with this `least_side` are kept.
std::shared_ptr<const ImageSet> with_cache(std::shared_ptr<const ImageSet> set, const std::string& mode,
                                           int least_side);

}  // namespace siamese
