// Golden files of the Gaussian diffusion: no weights and no gradients, every output is a function of the inputs.
#pragma once

#include "io/safetensors.h"
#include "models/parity.h"

namespace siamese {

/// The `model` of such a file.
inline constexpr const char* kDiffusionGolden = "gaussian diffusion of DiT";

/// Compares every `output.` of the file. Throws Error naming `path` on a config or an output that is not known here.
ParityResult check_diffusion_parity(const SafetensorsFile& file, const std::string& path, const ParityOptions& options);

}  // namespace siamese
