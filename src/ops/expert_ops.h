// The pieces of a mixture's fast path as registered operators (kernels/cuda/experts.h has the layout): rows padded so
// that every expert's begin at a multiple of 8 and none has none, all sizes known without asking the GPU. On a CPU
// plain operations give the same, for tests and for Python.
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

namespace siamese {

struct PaddedRows {
  at::Tensor token, slot;  // [R] int32, -1: nobody's row
  at::Tensor place;        // [T·k] int32: the row of a slot, -1: dropped
  at::Tensor ends;         // [E] int32: where an expert's rows end
  at::Tensor load;         // [E] int64: slots that chose it
};
/// `siamese::expert_sort`: chosen [T, k] int64; `capacity`: rows an expert takes, first come first served; 0: all.
PaddedRows expert_sort(const at::Tensor& chosen, int64_t experts, int64_t capacity);

/// `siamese::spread_rows`: row place[t, j] is x[t], one that is nobody's 0.
at::Tensor spread_rows(const at::Tensor& x, const at::Tensor& place, const at::Tensor& token);
/// `siamese::gather_sum`: [T, d], the sum of each token's k rows in order.
at::Tensor gather_sum(const at::Tensor& rows, const at::Tensor& place, int64_t k);

/// `siamese::weighted_swiglu`: weight·swiglu(p), weights [T·k] in fp32 or better.
at::Tensor weighted_swiglu(const at::Tensor& p, const at::Tensor& weights, const at::Tensor& slot);
/// From u, the gradient of the output before the weight: the gradient of p, the output again, that of the weights.
std::tuple<at::Tensor, at::Tensor, at::Tensor> weighted_swiglu_backward(const at::Tensor& p, const at::Tensor& u,
                                                                        const at::Tensor& weights,
                                                                        const at::Tensor& slot);

/// a [R, m] by groups of rows with b [E, m, n] -> [R, n]; rows past the last end are left as they are.
at::Tensor product_by_groups(const at::Tensor& a, const at::Tensor& b, const at::Tensor& ends);
/// aᵀ·b of each group: a [R, m], b [R, n] -> [E, m, n].
at::Tensor transposed_product_of_groups(const at::Tensor& a, const at::Tensor& b, const at::Tensor& ends);

/// Whether there are kernels for them: bf16 on Hopper or Blackwell (9.0, 10.0), widths that are multiples of 8.
bool expert_kernels_serve(at::IntArrayRef w1_shape, at::ScalarType type, at::Device device);
bool expert_kernels_serve(const at::Tensor& x, const at::Tensor& w1);

}  // namespace siamese
