#include "nn/tensor_io.h"

#include <ATen/ATen.h>

#include <fmt/ranges.h>
#include <cstring>

#include <set>

#include "util/error.h"

namespace siamese {

at::ScalarType to_scalar_type(DType dtype) {
  switch (dtype) {
    case DType::F64:
      return at::kDouble;
    case DType::F32:
      return at::kFloat;
    case DType::F16:
      return at::kHalf;
    case DType::BF16:
      return at::kBFloat16;
    case DType::I64:
      return at::kLong;
    case DType::I32:
      return at::kInt;
    case DType::I16:
      return at::kShort;
    case DType::I8:
      return at::kChar;
    case DType::U8:
      return at::kByte;
    case DType::BOOL:
      return at::kBool;
  }
  fail("unknown dtype {}", static_cast<int>(dtype));
}

DType to_dtype(at::ScalarType type) {
  for (const DType d : {DType::F64, DType::F32, DType::F16, DType::BF16, DType::I64, DType::I32, DType::I16, DType::I8,
                        DType::U8, DType::BOOL})
    if (to_scalar_type(d) == type) return d;
  fail("tensors of type {} cannot be written to safetensors", c10::toString(type));
}

at::Tensor to_tensor(const TensorView& view) {
  at::Tensor t = at::empty(view.shape, at::TensorOptions().dtype(to_scalar_type(view.dtype)));
  if (!view.bytes.empty()) std::memcpy(t.mutable_data_ptr(), view.bytes.data(), view.bytes.size());
  return t;
}

std::string save_tensors(const std::string& path, const NamedTensors& tensors,
                         const std::map<std::string, std::string>& metadata) {
  at::Tensor here;  // one at a time: a GPU's may be more than the host has room for
  std::vector<TensorToFetch> out;
  for (const auto& [name, tensor] : tensors)
    out.push_back({name, to_dtype(tensor.scalar_type()), tensor.sizes().vec(), [&here, &tensor] {
                     here.reset();
                     here = tensor.detach().to(at::kCPU).contiguous();
                     return std::span(static_cast<const std::byte*>(here.const_data_ptr()),
                                      static_cast<size_t>(here.nbytes()));
                   }});
  return write_fetched(path, out, metadata);
}

void load_tensors(const SafetensorsFile& file, const NamedTensors& into, const std::string& prefix,
                  const std::set<std::string>& spare) {
  const at::NoGradGuard no_grad;
  std::set<std::string> used = spare;
  for (const auto& [name, tensor] : into) {
    const TensorView& view = file.at(prefix + name);
    if (at::IntArrayRef(view.shape) != tensor.sizes())
      fail("{}: tensor '{}' has shape [{}] but the model needs [{}]", file.name(), prefix + name,
           fmt::join(view.shape, ", "), fmt::join(tensor.sizes().vec(), ", "));
    tensor.copy_(to_tensor(view));
    used.insert(prefix + name);
  }
  for (const auto& [name, view] : file.tensors())
    if (name.starts_with(prefix) && !used.contains(name))
      fail("{}: tensor '{}' is not part of this model", file.name(), name);
}

NamedTensors named(const Params& params) {
  NamedTensors all;
  for (const Parameter& p : params.all()) all.emplace_back(p.name, p.value);
  return all;
}

}  // namespace siamese
