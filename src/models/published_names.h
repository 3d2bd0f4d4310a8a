// What the published DeiT and DiT call our parameters: the one table between their checkpoints and ours.
#pragma once

#include <string>

namespace siamese {

/// `family`: deit or dit. A patch's convolution has a weight of four dimensions there, of two here.
std::string published_name(const std::string& family, const std::string& ours);

}  // namespace siamese
