// CUDA side of mhc's step: which kernels run is a matter of sizes and GPU (kernels/cuda/mhc.h). Where the tensor-core
// kernels do not serve, the three products with the weights are LibTorch's.
#include "kernels/cuda/hyper.h"
#include "kernels/cuda/mhc.h"
#include "ops/cuda/hyper_step_cuda.h"

namespace siamese {
namespace {

using at::Tensor;

kernels::MhcSizes sizes_of(const HyperSizes& s, at::ScalarType type) {
  kernels::MhcSizes z;
  z.bf16 = type == at::kBFloat16;
  z.tokens = s.tokens, z.n = static_cast<int>(s.n), z.d = static_cast<int>(s.d);
  return z;
}

/// The maps' parameters: phi, b, s of read, write, residual.
struct Parameters {
  std::vector<Tensor> maps;
  Tensor map_gain;
  kernels::MhcParametersCuda pointers;

  Parameters(at::TensorList given_maps, const OptionalTensor& gain) : map_gain(aligned(gain)) {
    for (const Tensor& map : given_maps) maps.push_back(map.contiguous());
    for (size_t i = 0; i < 3; ++i) {
      pointers.phi[i] = pointer(maps[i]);
      pointers.b[i] = pointer(maps[3 + i]);
      pointers.s[i] = pointer(maps[6 + i]);
    }
    pointers.map_gain = pointer(map_gain);
  }
  /// γ_map φ [n d, columns]
  Tensor weights() const {
    const Tensor all = at::cat({maps[0], maps[1], maps[2]}, 1);
    return map_gain.defined() ? all * map_gain.unsqueeze(1) : all;
  }
  Tensor packed(const kernels::MhcSizes& z, bool forward, c10::cuda::CUDAStream stream) const {
    const Tensor out = at::empty({int64_t{3} * z.n * (z.d / 32) * 512}, maps[0].options().dtype(at::kByte));
    C10_CUDA_CHECK(kernels::mhc_pack_cuda(z, pointers, forward, writable(out), stream));
    return out;
  }
};

}  // namespace

void mhc_forward_gpu(const HyperSizes& s, const HyperOutputs& out, SIAMESE_HYPER_ARGS) {
  (void)kind;
  const auto& [z, h_out, residual_out, write_out, saved] = out;
  const auto stream = c10::cuda::getCurrentCUDAStream();
  const StreamView view(h);
  const Tensor a = aligned(residual), b = aligned(write), update = aligned(r), g = aligned(gain);
  const Parameters p(maps, map_gain);
  const kernels::MhcSizes sizes = sizes_of(s, h.scalar_type());
  kernels::MhcMapsCuda of_maps;
  of_maps.sizes = sizes;
  of_maps.parameters = p.pointers;
  of_maps.map_eps = static_cast<float>(map_eps);
  of_maps.saved = result_floats(saved);
  of_maps.residual = result_floats(residual_out), of_maps.write = result_floats(write_out);
  if (kernels::mhc_forward_runs(sizes)) {
    kernels::MhcForwardCuda call;
    call.sizes = sizes;
    call.parameters = p.pointers;
    call.norm = norm;
    call.eps = static_cast<float>(eps), call.map_eps = static_cast<float>(map_eps);
    call.h = pointer(view.h), call.token_stride = view.token_stride, call.stream_stride = view.stream_stride;
    call.residual = floats(a), call.write = floats(b), call.r = pointer(update), call.gain = pointer(g);
    call.h_out = writable(h_out), call.z = writable(z), call.saved = result_floats(saved);
    cudaError_t error = cudaSuccess;
    if (kernels::mhc_forward_by_clusters(call, stream, &error)) {
      C10_CUDA_CHECK(error);
    } else {
      const Tensor packed = p.packed(sizes, true, stream);
      call.packed = pointer(packed);
      C10_CUDA_CHECK(kernels::mhc_forward_cuda(call, stream));
    }
    C10_CUDA_CHECK(kernels::mhc_maps_cuda(of_maps, stream));
    return;
  }
  const auto exact = h.options().dtype(at::kFloat);
  const Tensor squares = at::empty({s.tokens}, exact), read = at::empty({s.tokens, s.n}, exact);
  kernels::HyperForwardCuda call;  // mixes, then, as another call, reads
  call.bf16 = sizes.bf16, call.tokens = s.tokens, call.n = sizes.n, call.d = sizes.d;
  call.h = pointer(view.h), call.token_stride = view.token_stride, call.stream_stride = view.stream_stride;
  call.residual = floats(a), call.write = floats(b), call.r = pointer(update);
  call.h_out = writable(h_out), call.squares = result_floats(squares);
  C10_CUDA_CHECK(kernels::hyper_forward_cuda(call, stream));
  const Tensor product = at::mm(h_out.view({s.tokens, s.n * s.d}), p.weights());
  of_maps.product = pointer(product), of_maps.squares = floats(squares), of_maps.read = result_floats(read);
  C10_CUDA_CHECK(kernels::mhc_maps_cuda(of_maps, stream));
  kernels::HyperForwardCuda reads;
  reads.bf16 = sizes.bf16, reads.tokens = s.tokens, reads.n = sizes.n, reads.d = sizes.d;
  reads.kind = kernels::HyperRead::given;
  reads.norm = norm;
  reads.eps = static_cast<float>(eps);
  reads.h = pointer(h_out), reads.token_stride = s.n * s.d, reads.stream_stride = s.d;
  reads.read = floats(read), reads.gain = pointer(g), reads.z = writable(z);
  reads.saved = result_floats(saved);
  reads.saved_width = static_cast<int>(hyper_saved_width(s.kind, s.n)), reads.saved_rho = saved_rho(s);
  C10_CUDA_CHECK(kernels::hyper_forward_cuda(reads, stream));
}

std::vector<Tensor> mhc_backward_gpu(const HyperSizes& s, SIAMESE_HYPER_BACKWARD_ARGS) {
  (void)kind;
  const auto stream = c10::cuda::getCurrentCUDAStream();
  const Tensor streams = aligned(h), g_mixed = aligned(g_h), g_in = aligned(g_z), g_b_out = aligned(g_write),
               b = aligned(write), update = aligned(r), g = aligned(gain), kept = aligned(saved);
  const Parameters p(maps, map_gain);
  const kernels::MhcSizes sizes = sizes_of(s, h.scalar_type());
  const bool tiles = sizes.tiles();
  std::vector<Tensor> results(kHyperGradMaps);
  results[kHyperGradH] = at::empty_like(streams);
  if (b.defined()) results[kHyperGradWrite] = update.defined() ? at::empty_like(b) : at::zeros_like(b);
  if (update.defined()) results[kHyperGradR] = at::empty_like(update);
  if (g.defined()) results[kHyperGradGain] = at::empty_like(g);
  if (p.map_gain.defined()) results[kHyperGradMapGain] = at::empty_like(p.map_gain);
  for (const Tensor& map : p.maps) results.push_back(at::empty_like(map));

  kernels::MhcParts parts;
  C10_CUDA_CHECK(kernels::mhc_dots_parts(sizes, &parts.gain));
  parts.map = kernels::mhc_map_parts(sizes);
  if (tiles) C10_CUDA_CHECK(kernels::mhc_weight_parts(sizes, &parts.weight));
  const auto exact = h.options().dtype(at::kFloat);
  const int64_t columns = sizes.columns();
  const Tensor dots = at::empty({s.tokens, sizes.dots()}, exact),
               records = at::empty({s.tokens, sizes.record()}, exact);
  const Tensor e = at::empty({s.tokens, columns}, h.options());
  const Tensor gain_sums = at::empty({parts.gain, s.d}, exact), map_sums = at::empty({parts.map, columns + 3}, exact);
  kernels::MhcBackwardCuda call;
  call.sizes = sizes;
  call.parameters = p.pointers;
  call.norm = norm;
  call.h = pointer(streams), call.g_mixed = pointer(g_mixed), call.g_z = pointer(g_in);
  call.g_write = floats(g_b_out), call.write = floats(b), call.saved = floats(kept);
  call.r = pointer(update), call.gain = pointer(g);
  call.dots = result_floats(dots), call.records = result_floats(records), call.e = writable(e);
  call.g_h = writable(results[kHyperGradH]), call.g_r = writable(results[kHyperGradR]);
  call.g_b = result_floats(results[kHyperGradWrite]);
  call.gain_sums = result_floats(gain_sums), call.map_sums = result_floats(map_sums);
  C10_CUDA_CHECK(kernels::mhc_dots_cuda(call, parts, stream));
  C10_CUDA_CHECK(kernels::mhc_maps_backward_cuda(call, stream));

  Tensor packed, term, weight_sums, g_b_sums;
  if (tiles) {
    packed = p.packed(sizes, false, stream);
    weight_sums = at::empty({parts.weight, s.n * s.d, columns}, exact);
    if (update.defined()) g_b_sums = at::empty({s.tokens, sizes.slices(), s.n}, exact);
    call.packed = pointer(packed);
    call.weight_sums = result_floats(weight_sums), call.g_b_sums = result_floats(g_b_sums);
    C10_CUDA_CHECK(kernels::mhc_write_backward_cuda(call, parts, stream));
  } else {
    term = at::mm(e, p.weights().t());
    weight_sums = at::mm(streams.view({s.tokens, s.n * s.d}).t(), e).to(at::kFloat);
    call.term = pointer(term), call.weight_sums = result_floats(weight_sums);
    C10_CUDA_CHECK(kernels::mhc_mixed_backward_cuda(call, stream));
  }
  kernels::MhcSumsCuda sums;
  for (size_t i = 0; i < 3; ++i) {
    sums.g_phi[i] = writable(results[kHyperGradMaps + i]);
    sums.g_b[i] = writable(results[kHyperGradMaps + 3 + i]);
    sums.g_s[i] = writable(results[kHyperGradMaps + 6 + i]);
  }
  sums.g_map_gain = writable(results[kHyperGradMapGain]), sums.g_gain = writable(results[kHyperGradGain]);
  C10_CUDA_CHECK(kernels::mhc_sums_cuda(call, parts, sums, stream));
  return results;
}

}  // namespace siamese
