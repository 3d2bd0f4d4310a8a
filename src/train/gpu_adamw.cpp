#include "train/gpu_adamw.h"

#include <ATen/ATen.h>

#include <cstddef>
#include <cstring>

#include "kernels/adamw_table.h"

namespace siamese {
namespace {

using kernels::AdamwChunk;
using kernels::AdamwControl;
using kernels::AdamwGradient;
using kernels::AdamwTensor;
using kernels::kAdamwChunk;

template <class Row>
at::Tensor to_bytes(const std::vector<Row>& rows, at::Device device) {
  at::Tensor bytes = at::empty({static_cast<int64_t>(rows.size() * sizeof(Row))}, at::kByte);
  if (!rows.empty()) std::memcpy(bytes.mutable_data_ptr(), rows.data(), rows.size() * sizeof(Row));
  return bytes.to(device);
}

float* address(const at::Tensor& t, const char* what) {
  TORCH_CHECK(t.is_contiguous() && t.scalar_type() == at::kFloat, "[adamw] ", what, " must be contiguous fp32 but is ",
              t.scalar_type());
  return t.mutable_data_ptr<float>();
}

AdamwTensor table_row(const OptimizerSlot& s, int64_t offset) {
  const at::Tensor& p = s.parameter.value;
  AdamwTensor row{};
  if (!s.master.is_same(p)) {
    TORCH_CHECK(p.is_contiguous() && p.scalar_type() == at::kBFloat16, "[adamw] parameter ", s.parameter.name,
                " must be contiguous bf16 or fp32 but is ", p.scalar_type());
    row.parameter = p.mutable_data_ptr();
  }
  row.master = address(s.master, "a parameter (or its master weight)");
  row.m = address(s.m, "m");
  row.v = address(s.v, "v");
  row.average = s.average.defined() ? address(s.average, "an average") : nullptr;
  row.count = p.numel();
  row.offset = offset;
  row.decays = s.decays ? 1 : 0;
  row.rate = s.rate;
  return row;
}

at::Tensor control_block(const TrainConfig& t, at::Device device) {
  AdamwControl c{};
  c.clip = t.clip, c.beta1 = t.beta1, c.beta2 = t.beta2, c.eps = t.eps;
  c.weight_decay = t.weight_decay, c.average_rate = 1.0 - t.ema;
  at::Tensor block = at::empty({static_cast<int64_t>(sizeof(c) / sizeof(double))}, at::kDouble);
  std::memcpy(block.mutable_data_ptr(), &c, sizeof(c));
  return block.to(device);
}

}  // namespace

GpuAdamW::GpuAdamW(const std::vector<OptimizerSlot>& slots, const TrainConfig& train) {
  std::vector<AdamwTensor> tensors;
  std::vector<AdamwChunk> chunks;
  for (const OptimizerSlot& s : slots) {
    tensors.push_back(table_row(s, sums_size_));
    offsets_.push_back(sums_size_);
    const int64_t count = tensors.back().count;
    sums_size_ += (count + 7) / 8 * 8;  // every sum begins aligned
    for (int64_t first = 0; first < count; first += kAdamwChunk)
      chunks.push_back({static_cast<int32_t>(tensors.size() - 1), static_cast<int32_t>(first / kAdamwChunk)});
  }
  const at::Device device = slots.front().parameter.value.device();
  buffers_.tensors = to_bytes(tensors, device);
  buffers_.gradients = to_bytes(std::vector<AdamwGradient>(tensors.size()), device);
  buffers_.chunks = to_bytes(chunks, device);
  buffers_.partials =
      at::zeros({static_cast<int64_t>(chunks.size())}, at::TensorOptions().device(device).dtype(at::kFloat));
  buffers_.control = control_block(train, device);
}

void GpuAdamW::point_to(const std::vector<at::Tensor>& gradients) {
  // A new pinned buffer each time: LibTorch's host allocator reuses one only after its copy has run, and in the capture
  // of a CUDA graph keeps it for the graph, whose replays copy from it again.
  const at::Tensor host = at::empty(buffers_.gradients.sizes(),
                                    at::TensorOptions().dtype(at::kByte).pinned_memory(buffers_.gradients.is_cuda()));
  auto* rows = reinterpret_cast<AdamwGradient*>(host.mutable_data_ptr());
  for (size_t i = 0; i < gradients.size(); ++i) {
    const at::Tensor& g = gradients[i];
    rows[i] = {};
    if (g.defined()) rows[i] = {g.const_data_ptr(), g.scalar_type() == at::kBFloat16};
  }
  buffers_.gradients.copy_(host, /*non_blocking=*/true);
}

void GpuAdamW::collect(std::vector<OptimizerSlot>& slots) {
  std::vector<at::Tensor> fresh;
  for (const OptimizerSlot& s : slots) {
    at::Tensor g = s.parameter.value.grad();
    s.parameter.value.mutable_grad().reset();
    if (g.defined()) {
      TORCH_CHECK(g.scalar_type() == at::kBFloat16 || g.scalar_type() == at::kFloat, "[adamw] the gradient of ",
                  s.parameter.name, " must be bf16 or fp32 but is ", g.scalar_type());
      TORCH_CHECK(g.device() == buffers_.control.device() && g.numel() == s.parameter.value.numel(),
                  "[adamw] the gradient of ", s.parameter.name, " must be like its parameter but is ", g.sizes(),
                  " on ", g.device());
      g = g.contiguous();
    }
    fresh.push_back(std::move(g));
  }
  if (++collected_ == 1) {
    for (size_t i = 0; i < slots.size(); ++i) slots[i].gradient = std::move(fresh[i]);
    return;
  }
  if (collected_ == 2) {
    if (!sums_.defined()) sums_ = at::empty({sums_size_}, buffers_.partials.options());
    std::vector<at::Tensor> first;
    for (const OptimizerSlot& s : slots) first.push_back(s.gradient);
    point_to(first);
    adamw_accumulate(buffers_, sums_, /*add=*/false);
    for (size_t i = 0; i < slots.size(); ++i) {
      const at::Tensor& p = slots[i].parameter.value;
      slots[i].gradient = sums_.narrow(0, offsets_[i], p.numel()).view(p.sizes());
    }
  }
  point_to(fresh);
  adamw_accumulate(buffers_, sums_, /*add=*/true);
}

void GpuAdamW::plan(double lr, int64_t number) { adamw_plan(buffers_, lr, number); }

at::Tensor GpuAdamW::apply(const std::vector<OptimizerSlot>& slots, const at::Tensor& loss) {
  std::vector<at::Tensor> gradients;
  for (const OptimizerSlot& s : slots) gradients.push_back(s.gradient);
  point_to(gradients);
  adamw_step(buffers_, loss.defined() ? loss.detach().to(at::kDouble) : loss);
  // The control block's loss, norm and bad_step, side by side.
  static_assert(offsetof(AdamwControl, norm) - offsetof(AdamwControl, loss) == kStepNorm * sizeof(double) &&
                offsetof(AdamwControl, bad_step) - offsetof(AdamwControl, loss) == kStepBad * sizeof(double));
  return buffers_.control.narrow(0, offsetof(AdamwControl, loss) / sizeof(double), kStepValues);
}

}  // namespace siamese
