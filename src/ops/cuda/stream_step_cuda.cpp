// CUDA side of `siamese::stream_step`: rows padded to multiples of 8 and aligned where they are not, outputs and
// scratch allocated, kernels launched.
#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <map>
#include <mutex>

#include "kernels/cuda/stream_step.h"
#include "ops/cuda/tensors.h"
#include "ops/step_call.h"

namespace siamese {
namespace {

using at::Tensor;
using kernels::StepCuda;

/// Sizes of a call, and tensors as the kernels want them.
struct Layout {
  int64_t width, d, rows, samples;

  explicit Layout(const StepCall& call) {
    const Tensor& s = call.stream();
    width = s.size(-1);
    d = (width + 7) / 8 * 8;
    rows = width == 0 ? 0 : s.numel() / width;
    samples = 1;
    for (const StepTensor i : {kGate, kRowScale, kShift, kScale})
      if (call.has(i)) samples = call[i].size(0);
  }
  /// Contiguous, padded with zeros to d columns, 16-byte aligned; undefined stays so.
  Tensor fit(const Tensor& t) const {
    return aligned(t.defined() && d != width ? at::constant_pad_nd(t, {0, d - width}) : t);
  }
  Tensor make(const Tensor& like, at::ScalarType type) const {
    std::vector<int64_t> shape = like.sizes().vec();
    shape.back() = d;
    return at::empty(shape, like.options().dtype(type));
  }
  /// Back to the width the caller knows.
  Tensor crop(const Tensor& t) const { return !t.defined() || d == width ? t : t.slice(-1, 0, width).contiguous(); }
};

kernels::StepTypes types_of(at::ScalarType s, at::ScalarType z) {
  if (s == at::kBFloat16 && z == at::kBFloat16) return kernels::StepTypes::bf16_bf16;
  if (s == at::kFloat && z == at::kBFloat16) return kernels::StepTypes::fp32_bf16;
  if (s == at::kFloat && z == at::kFloat) return kernels::StepTypes::fp32_fp32;
  TORCH_CHECK(false, "[stream_step] no CUDA kernel for streams of type ", s, " and values of type ", z);
}

/// Ones or zeros [d] that stay: the kernels want a gain for every norm, and a bias under LayerNorm.
Tensor constant(double value, int64_t d, const at::TensorOptions& options) {
  static std::mutex mutex;
  static std::map<std::tuple<double, int64_t, at::ScalarType, int>, Tensor> all;
  const std::lock_guard lock(mutex);
  Tensor& t = all[{value, d, c10::typeMetaToScalarType(options.dtype()), options.device().index()}];
  if (!t.defined()) t = at::full({d}, value, options);
  return t;
}

/// Gate, scale and shift are mostly columns of one matrix: the stride of their rows where the kernels can read them as
/// they are, otherwise 0.
int64_t sample_stride(const StepCall& call, const Layout& layout) {
  int64_t stride = 0;
  for (const StepTensor i : {kGate, kScale, kShift}) {
    if (!call.has(i)) continue;
    const Tensor& t = call[i];
    const bool fits = layout.d == layout.width && t.stride(1) == 1 && t.stride(0) > 0 && t.stride(0) % 8 == 0 &&
                      reinterpret_cast<uintptr_t>(t.const_data_ptr()) % 16 == 0;
    if (!fits || (stride != 0 && stride != t.stride(0))) return 0;
    stride = t.stride(0);
  }
  return stride;
}

/// The call with fitted tensors (kept alive in `call`) as the kernels' arguments.
StepCuda arguments(StepCall& call, const Layout& layout) {
  const int64_t stride = sample_stride(call, layout);
  for (size_t i = 0; i < kStepTensors; ++i) {
    if (i == kRowScale && call.has(kRowScale)) call.t[i] = call.t[i].to(at::kFloat).contiguous();
    if (stride != 0 && (i == kGate || i == kScale || i == kShift)) continue;
    if (i != kRowScale && i != kXStats) call.t[i] = layout.fit(call.t[i]);
  }
  StepCuda p;
  p.sample_stride = stride != 0 ? stride : layout.d;
  p.types = types_of(call.stream().scalar_type(), call.dtype);
  p.rows = layout.rows, p.d = layout.d, p.samples = layout.samples, p.width = layout.width;
  p.layer = call.on(kLayer), p.norm_r = call.on(kNormR), p.norm_x = call.on(kNormX), p.norm_y = call.on(kNormY);
  p.norm_in = call.on(kNormIn), p.skip_y = call.on(kSkipY);
  p.affine_y = call.has(kGainY) || call.has(kBiasY), p.affine_in = call.has(kGainIn) || call.has(kBiasIn);
  p.eps = static_cast<float>(call.eps), p.a = static_cast<float>(call.a);
  p.a_next = static_cast<float>(call.a_next), p.joined = call.on(kJoined);
  p.x = pointer(call[kX]), p.y = pointer(call[kY]), p.r = pointer(call[kR]);
  p.gain_a = pointer(call[call.has(kX) ? kGainX : kGainR]), p.bias_a = pointer(call[call.has(kX) ? kBiasX : kBiasR]);
  p.gain_y = pointer(call[kGainY]), p.bias_y = pointer(call[kBiasY]), p.gain_in = pointer(call[kGainIn]);
  p.bias_in = pointer(call[kBiasIn]), p.c1 = pointer(call[kC1]);
  TORCH_CHECK(p.layer || (p.bias_a == nullptr && p.bias_y == nullptr && p.bias_in == nullptr),
              "[stream_step] the GPU's RMSNorm has no bias");
  const auto options = call.stream().options().dtype(call.dtype);
  auto complete = [&](bool on, const void*& gain, const void*& bias) {
    if (on && gain == nullptr) gain = pointer(constant(1.0, layout.d, options));
    if (on && p.layer && bias == nullptr) bias = pointer(constant(0.0, layout.d, options));
  };
  complete(p.norm_x || p.norm_r, p.gain_a, p.bias_a);
  complete(p.norm_y, p.gain_y, p.bias_y);
  complete(p.norm_in, p.gain_in, p.bias_in);
  p.gain_before = pointer(call[kGainBefore]), p.bias_before = pointer(call[kBiasBefore]);
  complete(call.has(kXStats), p.gain_before, p.bias_before);
  p.gate = pointer(call[kGate]), p.scale = pointer(call[kScale]), p.shift = pointer(call[kShift]);
  p.row_scale = static_cast<const float*>(pointer(call[kRowScale]));
  return p;
}

StepResults forward_cuda(const StepCall& raw) {
  StepCall call = raw;
  const Layout layout(call);
  const Tensor& like = raw.stream();
  const c10::cuda::CUDAGuard guard(like.device());
  StepCuda p = arguments(call, layout);
  p.stats_before = static_cast<const float*>(pointer(call[kXStats]));
  StepResults result;
  const auto stream_type = like.scalar_type();
  result[kZ] = layout.make(like, call.dtype);
  result[kStats] = at::empty({6, layout.rows}, like.options().dtype(at::kFloat));
  if (call.new_x()) result[kXOut] = layout.make(like, stream_type);
  if (call.new_y()) result[kYOut] = layout.make(like, stream_type);
  const bool raw_is_out = call.on(kDefer) || !call.on(kNormX);
  if (call.new_raw()) result[kXRaw] = layout.make(like, stream_type);
  p.x_raw = writable(raw_is_out ? result[kXOut] : result[kXRaw]);
  p.x_out = raw_is_out ? nullptr : writable(result[kXOut]);
  p.y_out = writable(result[kYOut]);
  p.z = writable(result[kZ]);
  p.stats = static_cast<float*>(writable(result[kStats]));
  C10_CUDA_CHECK(kernels::step_forward_cuda(p, c10::cuda::getCurrentCUDAStream()));
  for (const StepResult i : {kZ, kXOut, kYOut, kXRaw}) result[i] = layout.crop(result[i]);
  if (!call.new_stats()) result[kStats] = Tensor();
  return result;
}

/// A graph traced where nobody asked for the statistics hands over x, y and r instead: the forward pass runs again.
StepGradients with_statistics(const StepCall& call, StepGradients g) {
  if (g.stats.defined() && g.stats.numel() > 0) return g;
  StepCall again = call;
  again.flags |= kKeep;
  const StepResults out = forward_cuda(again);
  const bool out_is_raw = out[kXOut].defined() && (!call.on(kNormX) || call.on(kDefer));
  g.stats = out[kStats];
  if (call.has(kX)) g.saved_x = out[kXRaw].defined() ? out[kXRaw] : out_is_raw ? out[kXOut] : call[kX];
  if (call.has(kY)) g.saved_y = out[kYOut].defined() ? out[kYOut] : call[kY];
  return g;
}

StepBackward backward_cuda(const StepCall& raw, const StepGradients& given) {
  StepCall call = raw;
  const Layout layout(call);
  const StepGradients g = with_statistics(raw, given);
  TORCH_CHECK(g.stats.numel() == 6 * layout.rows && g.stats.scalar_type() == at::kFloat && g.stats.is_contiguous(),
              "[stream_step_backward] stats must be what the forward pass returned, 6 rows of ", layout.rows);
  const Tensor& like = raw.stream();
  const c10::cuda::CUDAGuard guard(like.device());
  const auto stream = c10::cuda::getCurrentCUDAStream();
  for (const auto& [saved, wanted] : {std::pair{&g.saved_x, kX}, {&g.saved_y, kY}})
    TORCH_CHECK(saved->defined() == call.has(wanted) && (!saved->defined() || saved->sizes() == like.sizes()),
                "[stream_step_backward] saved_x and saved_y must be like x and y");
  call.t[kX] = g.saved_x, call.t[kY] = g.saved_y;
  StepCuda p = arguments(call, layout);
  const Tensor gz = layout.fit(g.z), gx = layout.fit(g.x_out), gy = layout.fit(g.y_out);
  p.g_z = pointer(gz), p.g_x_out = pointer(gx), p.g_y_out = pointer(gy);
  p.stats = static_cast<float*>(g.stats.mutable_data_ptr());
  StepBackward result;
  const auto stream_type = like.scalar_type();
  if (call.has(kX)) result[kX] = layout.make(like, stream_type);
  if (call.has(kY)) result[kY] = layout.make(like, stream_type);
  if (call.has(kR) && !call.r_has_stream_gradient()) result[kR] = layout.make(like, call.dtype);
  if (g.want_z) result[kStepTensors] = layout.make(like, call.dtype);
  p.g_x = writable(result[kX]), p.g_y = writable(result[kY]), p.g_r = writable(result[kR]),
  p.z_again = writable(result[kStepTensors]);

  kernels::StepParts parts;
  C10_CUDA_CHECK(kernels::step_parts(p, &parts));
  const Tensor partial =
      at::empty({parts.parts * parts.columns + parts.by_sample * 3, layout.d}, like.options().dtype(at::kFloat));
  p.partial = static_cast<float*>(partial.mutable_data_ptr());
  C10_CUDA_CHECK(kernels::step_backward_cuda(p, parts, stream));

  const int type = call.dtype == at::kBFloat16 ? 2 : 0;
  const int first_sample = parts.by_sample > 0 ? 0 : call.on(kLayer) ? 6 : 3;
  kernels::ColumnSums all, by_sample;
  // Only what takes part has a column; the gradient of the rest is 0.
  auto sum = [&](kernels::ColumnSums& sums, StepTensor i, bool takes_part, int column, at::IntArrayRef shape) {
    if (!call.has(i)) return;
    result[i] = at::empty(shape, like.options().dtype(call.dtype));
    if (layout.rows == 0 || !takes_part) {
      result[i].zero_();
      return;
    }
    sums.column[sums.count] = column;
    sums.out[sums.count++] = writable(result[i]);
  };
  using namespace kernels;
  const std::vector<int64_t> row{layout.d}, rows{layout.samples, layout.d};
  const bool norm_x = call.has(kX) && call.on(kNormX), norm_r = !call.has(kX) && call.on(kNormR);
  sum(all, kGainX, norm_x, kStepGainA, row);
  sum(all, kC1, call.has(kX) && !norm_x, kStepGainA, row);
  sum(all, kGainR, norm_r, kStepGainA, row);
  sum(all, kGainY, call.on(kNormY), kStepGainY, row);
  sum(all, kGainIn, call.on(kNormIn), kStepGainIn, row);
  sum(all, kBiasX, norm_x, kStepBiasA, row);
  sum(all, kBiasR, norm_r, kStepBiasA, row);
  sum(all, kBiasY, call.on(kNormY), kStepBiasY, row);
  sum(all, kBiasIn, call.on(kNormIn), kStepBiasIn, row);
  C10_CUDA_CHECK(sum_columns_cuda(p.partial, parts, layout.d, 1, all, type, stream));
  sum(by_sample, kScale, true, first_sample + kStepScale, rows);
  sum(by_sample, kShift, true, first_sample + kStepShift, rows);
  sum(by_sample, kGate, true, first_sample + kStepGate, rows);
  const bool apart = parts.by_sample > 0;
  C10_CUDA_CHECK(
      sum_columns_cuda(p.partial + (apart ? static_cast<int64_t>(parts.parts) * parts.columns * layout.d : 0),
                       apart ? StepParts{parts.by_sample, 3} : parts, layout.d, static_cast<int>(layout.samples),
                       by_sample, type, stream));
  for (Tensor& t : result) t = layout.crop(t);
  return result;
}

}  // namespace

TORCH_LIBRARY_IMPL(siamese, CUDA, m) {
  m.impl("stream_step", torch::CppFunction::makeFromBoxedFunction<&boxed_step<forward_cuda>>());
  m.impl("stream_step_backward", torch::CppFunction::makeFromBoxedFunction<&boxed_step_backward<backward_cuda>>());
}

}  // namespace siamese
