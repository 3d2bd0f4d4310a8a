// Between tensors and safetensors files.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "io/safetensors.h"
#include "nn/params.h"

namespace siamese {

at::Tensor to_tensor(const TensorView& view);  // a copy, on the CPU
DType to_dtype(at::ScalarType type);
at::ScalarType to_scalar_type(DType dtype);

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// Writes tensors (copied to the CPU where needed), returns the file's hash.
std::string save_tensors(const std::string& path, const NamedTensors& tensors,
                         const std::map<std::string, std::string>& metadata = {});

/// Copies `<prefix><name>` of the file into every named tensor; names, shapes and completeness are checked. Nothing
/// else may stand in the file but `spare`.
void load_tensors(const SafetensorsFile& file, const NamedTensors& into, const std::string& prefix = "",
                  const std::set<std::string>& spare = {});

NamedTensors named(const Params& params);

}  // namespace siamese
