// The kinds of image set. `make_image_sets` chooses; nothing else needs to know them.
#pragma once

#include <cstdint>

#include "images/image_set.h"

namespace siamese {

ImageSets make_folder_sets(const DataConfig& data);
ImageSets make_cifar_sets(const DataConfig& data);
ImageSets make_idx_sets(const DataConfig& data);
/// `seed` chooses the pictures: other seeds, other data.
ImageSets make_shapes_sets(int64_t count, int64_t image_size, uint64_t seed);

}  // namespace siamese
