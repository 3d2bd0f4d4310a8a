// The parameters of a mixture of experts.
#pragma once

#include "models/init.h"
#include "nn/mixture.h"

namespace siamese {

/// Adds `<name>moe.router.weight`, `moe.w1`, `moe.w2`, of shared experts `moe.shared_in` and `moe.shared_out`, and with
/// balancing by bias the state `moe.balance_bias`. `name` ends in a dot.
Mixture make_mixture(const ModelConfig& config, const Initialiser& init, Params& params, const std::string& name,
                     Activation activation);

}  // namespace siamese
