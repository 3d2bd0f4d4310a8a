// What a plain program does to turn photographs into pictures for a model: read, decode with libjpeg-turbo, resize.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "images/resize.h"

namespace siamese {

/// All files once, whole pictures to size × size by our own antialiased `resize`, on `threads` threads. Nothing is
/// checked and nothing augmented; results are thrown away. Returns their sum, so that no compiler leaves anything out.
int64_t plain_loop(const std::vector<std::string>& paths, int size, Filter filter, int64_t threads);

}  // namespace siamese
