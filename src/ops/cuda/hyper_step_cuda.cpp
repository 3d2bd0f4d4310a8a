// CUDA side of ops/hyper_step.cpp: hc_static, hc_dynamic and the end of the stack; mhc is in mhc_step_cuda.cpp.
#include "ops/cuda/hyper_step_cuda.h"

#include <torch/library.h>

#include "kernels/cuda/hyper.h"

namespace siamese {
namespace {

using at::Tensor;
using kernels::HyperRead;

HyperRead read_of(HyperKind kind) {
  return kind == HyperKind::sum ? HyperRead::sum : kind == HyperKind::fixed ? HyperRead::fixed : HyperRead::dynamic;
}

HyperOutputs forward_gpu(SIAMESE_HYPER_ARGS) {
  const HyperSizes s = check_hyper_step(SIAMESE_HYPER_NAMES);
  if (!hyper_step_has_kernels(h)) return hyper_step_plain(SIAMESE_HYPER_NAMES);
  const c10::cuda::CUDAGuard guard(h.device());
  HyperOutputs out = allocate_hyper_step(h, s);
  if (s.kind == HyperKind::mhc) {
    mhc_forward_gpu(s, out, SIAMESE_HYPER_NAMES);
    return out;
  }
  auto& [z, h_out, residual_out, write_out, saved] = out;
  const StreamView view(h);
  const Tensor a = aligned(residual), b = aligned(write), update = aligned(r), g = aligned(gain),
               map_g = aligned(map_gain);
  kernels::HyperForwardCuda call;
  call.bf16 = h.scalar_type() == at::kBFloat16;
  call.tokens = s.tokens, call.n = static_cast<int>(s.n), call.d = static_cast<int>(s.d);
  call.kind = read_of(s.kind);
  call.norm = norm;
  call.eps = static_cast<float>(eps), call.map_eps = static_cast<float>(map_eps);
  call.h = pointer(view.h), call.token_stride = view.token_stride, call.stream_stride = view.stream_stride;
  call.residual = floats(a), call.write = floats(b), call.r = pointer(update);
  call.gain = pointer(g), call.map_gain = pointer(map_g);
  std::vector<Tensor> dense;
  for (size_t i = 0; i < maps.size(); ++i) dense.push_back(maps[i].contiguous()), call.maps[i] = pointer(dense[i]);
  call.h_out = writable(h_out), call.z = writable(z);
  if (s.kind != HyperKind::sum) {
    call.residual_out = result_floats(residual_out);
    call.write_out = result_floats(write_out);
  }
  call.saved = result_floats(saved);
  call.saved_width = static_cast<int>(hyper_saved_width(s.kind, s.n));
  call.saved_rho = saved_rho(s);
  C10_CUDA_CHECK(kernels::hyper_forward_cuda(call, c10::cuda::getCurrentCUDAStream()));
  return out;
}

std::vector<Tensor> backward_gpu(SIAMESE_HYPER_BACKWARD_ARGS) {
  const HyperSizes s = hyper_sizes(h, kind);
  if (!hyper_step_has_kernels(h)) return hyper_step_backward_plain(SIAMESE_HYPER_BACKWARD_NAMES);
  const c10::cuda::CUDAGuard guard(h.device());
  if (s.kind == HyperKind::mhc) return without_gaps(mhc_backward_gpu(s, SIAMESE_HYPER_BACKWARD_NAMES), h);
  const Tensor streams = aligned(h), g_mixed = aligned(g_h), g_in = aligned(g_z), g_b_out = aligned(g_write),
               b = aligned(write), update = aligned(r), g = aligned(gain), map_g = aligned(map_gain),
               kept = aligned(saved);
  std::vector<Tensor> results(kHyperGradMaps), dense;
  results[kHyperGradH] = at::empty_like(streams);
  if (b.defined()) results[kHyperGradWrite] = update.defined() ? at::empty_like(b) : at::zeros_like(b);
  if (update.defined()) results[kHyperGradR] = at::empty_like(update);
  if (g.defined()) results[kHyperGradGain] = at::empty_like(g);
  if (map_g.defined()) results[kHyperGradMapGain] = at::empty_like(map_g);

  kernels::HyperBackwardCuda call;
  call.bf16 = h.scalar_type() == at::kBFloat16;
  call.tokens = s.tokens, call.n = static_cast<int>(s.n), call.d = static_cast<int>(s.d);
  call.kind = read_of(s.kind);
  call.norm = norm;
  call.h = pointer(streams), call.g_mixed = pointer(g_mixed), call.g_z = pointer(g_in);
  call.g_write = floats(g_b_out), call.write = floats(b), call.r = pointer(update);
  call.gain = pointer(g), call.map_gain = pointer(map_g);
  kernels::HyperSumsCuda sums;
  for (size_t i = 0; i < maps.size(); ++i) {
    dense.push_back(maps[i].contiguous());
    call.maps[i] = pointer(dense[i]);
    results.push_back(at::empty_like(dense[i]));
    sums.g_maps[i] = writable(results.back());
  }
  sums.g_gain = writable(results[kHyperGradGain]), sums.g_map_gain = writable(results[kHyperGradMapGain]);
  call.saved = floats(kept);
  call.saved_width = static_cast<int>(hyper_saved_width(s.kind, s.n));
  call.saved_rho = saved_rho(s);
  call.g_h = writable(results[kHyperGradH]), call.g_r = writable(results[kHyperGradR]);
  call.g_b = result_floats(results[kHyperGradWrite]);
  int parts = 0;
  C10_CUDA_CHECK(kernels::hyper_backward_parts(call, &parts));
  const Tensor columns = at::empty({parts, s.n + 3, s.d}, h.options().dtype(at::kFloat)),
               lanes = at::empty({parts, 64}, columns.options());
  call.columns = result_floats(columns), call.lanes = result_floats(lanes);
  const auto stream = c10::cuda::getCurrentCUDAStream();
  C10_CUDA_CHECK(kernels::hyper_backward_cuda(call, parts, stream));
  C10_CUDA_CHECK(kernels::hyper_sums_cuda(call, parts, sums, stream));
  return without_gaps(std::move(results), h);
}

}  // namespace

TORCH_LIBRARY_IMPL(siamese, CUDA, m) {
  m.impl("hyper_step", forward_gpu);
  m.impl("hyper_step_backward", backward_gpu);
}

}  // namespace siamese
