// Golden files: one small model with weights, inputs, outputs and every gradient, rebuilt here and compared.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace siamese {

struct ParityOptions {
  at::Device device = at::kCPU;
  at::ScalarType dtype = at::kFloat;
  bool fused = true;
};

/// Errors: max|a-b| / (max|b| + 1e-6) of an output, max|a-b| / (max|b| + 0.01·G) of a gradient, G the largest absolute
/// gradient in the file. Bounds 1e-5 and 1e-4; in fp64, files that were computed in fp64 must agree to 1e-6.
struct ParityResult {
  double output_error = 0, gradient_error = 0;
  double output_bound = 1e-5, gradient_bound = 1e-4;
  std::string worst_output, worst_gradient;
  bool ok() const { return output_error <= output_bound && gradient_error <= gradient_bound; }  // NaN fails
};

/// Throws Error when the file cannot be read or describes a model that is not built here.
ParityResult check_parity(const std::string& path, const ParityOptions& options);

}  // namespace siamese
