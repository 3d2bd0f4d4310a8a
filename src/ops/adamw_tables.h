// The tensors of ops/adamw.h as the kernels take them, checked.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "kernels/adamw_table.h"

namespace siamese {

/// How many `Row`s a table of bytes holds.
template <class Row>
int64_t adamw_rows(const at::Tensor& table, const char* name, at::Device device) {
  TORCH_CHECK(table.device() == device && table.is_contiguous() && table.scalar_type() == at::kByte &&
                  table.numel() % static_cast<int64_t>(sizeof(Row)) == 0 &&
                  reinterpret_cast<uintptr_t>(table.const_data_ptr()) % alignof(Row) == 0,
              "[adamw] ", name, " must be a contiguous, aligned table of bytes on ", device);
  return table.numel() / static_cast<int64_t>(sizeof(Row));
}

struct AdamwView {
  const kernels::AdamwTensor* tensors;
  const kernels::AdamwGradient* gradients;
  const kernels::AdamwChunk* chunks;
  int64_t chunk_count;

  AdamwView(const at::Tensor& t, const at::Tensor& g, const at::Tensor& c, at::Device device)
      : tensors(static_cast<const kernels::AdamwTensor*>(t.const_data_ptr())),
        gradients(static_cast<const kernels::AdamwGradient*>(g.const_data_ptr())),
        chunks(static_cast<const kernels::AdamwChunk*>(c.const_data_ptr())),
        chunk_count(adamw_rows<kernels::AdamwChunk>(c, "chunks", device)) {
    const int64_t count = adamw_rows<kernels::AdamwTensor>(t, "tensors", device);
    TORCH_CHECK(adamw_rows<kernels::AdamwGradient>(g, "gradients", device) == count, "[adamw] ", count,
                " tensors must have ", count, " gradients");
  }
};

inline kernels::AdamwControl* adamw_control_of(const at::Tensor& control) {
  TORCH_CHECK(control.is_contiguous() && control.scalar_type() == at::kDouble &&
                  control.nbytes() == sizeof(kernels::AdamwControl),
              "[adamw] control must be contiguous fp64 of ", sizeof(kernels::AdamwControl), " bytes");
  return reinterpret_cast<kernels::AdamwControl*>(control.mutable_data_ptr<double>());
}

inline void adamw_check_step(int64_t step) {
  TORCH_CHECK(step >= 1, "[adamw] steps count from 1 but this is step ", step);
}

inline float* adamw_sums_of(const at::Tensor& sums) {
  TORCH_CHECK(sums.is_contiguous() && sums.scalar_type() == at::kFloat, "[adamw] sums must be contiguous fp32");
  return sums.mutable_data_ptr<float>();
}

inline float* adamw_partials_of(const at::Tensor& partials, const AdamwView& v, at::Device device) {
  TORCH_CHECK(partials.device() == device && partials.is_contiguous() && partials.scalar_type() == at::kFloat &&
                  partials.numel() >= v.chunk_count,
              "[adamw] partials must be contiguous fp32 on ", device, " with room for ", v.chunk_count, " chunks");
  return partials.mutable_data_ptr<float>();
}

inline const double* adamw_loss_of(const std::optional<at::Tensor>& loss, at::Device device) {
  TORCH_CHECK(!loss || (loss->device() == device && loss->numel() == 1 && loss->scalar_type() == at::kDouble),
              "[adamw] the loss must be an fp64 scalar on ", device);
  return loss ? loss->const_data_ptr<double>() : nullptr;
}

}  // namespace siamese
