// A stable counting sort of the slots by expert. Stage one counts each chunk's slots an expert; stage two, one block,
// turns the counts into where a chunk's slots of an expert begin; stage three puts every slot in its place. Integers
// only: the result does not depend on timing.
#include "kernels/cuda/experts.h"

namespace siamese::kernels {
namespace {

constexpr int kChunk = 1024, kWarps = kChunk / 32;

/// How many earlier slots of the chunk chose the same expert. counts [kWarps, experts] is left as the number of slots
/// of an expert in the warps before.
__device__ __forceinline__ int rank_in_chunk(int expert, int experts, int* counts, int* total) {
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
  for (int i = thread; i < kWarps * experts; i += kChunk) counts[i] = 0;
  __syncthreads();
  const unsigned same = __match_any_sync(0xffffffffU, expert);
  const int before = __popc(same & ((1U << lane) - 1U));
  if (expert >= 0 && before == 0) counts[warp * experts + expert] = __popc(same);
  __syncthreads();
  for (int e = thread; e < experts; e += kChunk) {
    int sum = 0;
    for (int w = 0; w < kWarps; ++w) {
      const int here = counts[w * experts + e];
      counts[w * experts + e] = sum;
      sum += here;
    }
    if (total != nullptr) total[e] = sum;
  }
  __syncthreads();
  return expert >= 0 ? counts[warp * experts + expert] + before : 0;
}

/// The expert of this thread's slot, -1 past the end.
__device__ __forceinline__ int expert_of(const ExpertSortCuda& p, int64_t slot) {
  return slot < p.slots ? static_cast<int>(p.chosen[slot]) : -1;
}

__global__ void __launch_bounds__(kChunk) count_kernel(const ExpertSortCuda p) {
  extern __shared__ int counts[];
  const int64_t slot = static_cast<int64_t>(blockIdx.x) * kChunk + threadIdx.x;
  rank_in_chunk(expert_of(p, slot), p.experts, counts, p.before + static_cast<int64_t>(blockIdx.x) * p.experts);
}

/// One block, a thread an expert.
__global__ void __launch_bounds__(kMostExperts) begin_kernel(const ExpertSortCuda p, int chunks) {
  __shared__ int lengths[kMostExperts];
  const int e = static_cast<int>(threadIdx.x);
  int load = 0;
  if (e < p.experts) {
    for (int c = 0; c < chunks; ++c) {
      int32_t& at = p.before[static_cast<int64_t>(c) * p.experts + e];
      const int here = at;
      at = load;
      load += here;
    }
    p.load[e] = load;
    const int rows = p.capacity > 0 && load > p.capacity ? static_cast<int>(p.capacity) : load;
    lengths[e] = rows < kExpertAlign ? kExpertAlign : (rows + kExpertAlign - 1) / kExpertAlign * kExpertAlign;
  }
  __syncthreads();
  if (e == 0) {
    int end = 0;
    for (int i = 0; i < p.experts; ++i) p.ends[i] = end += lengths[i];
  }
}

__global__ void __launch_bounds__(kChunk) place_kernel(const ExpertSortCuda p) {
  extern __shared__ int counts[];
  const int64_t slot = static_cast<int64_t>(blockIdx.x) * kChunk + threadIdx.x;
  const int expert = expert_of(p, slot);
  const int rank = rank_in_chunk(expert, p.experts, counts, nullptr);
  if (expert < 0) return;
  const int64_t in_expert = p.before[static_cast<int64_t>(blockIdx.x) * p.experts + expert] + rank;
  if (p.capacity > 0 && in_expert >= p.capacity) {
    p.place[slot] = -1;
    return;
  }
  const int64_t row = (expert == 0 ? 0 : p.ends[expert - 1]) + in_expert;
  p.place[slot] = static_cast<int32_t>(row);
  p.token[row] = static_cast<int32_t>(slot / p.k);
  p.slot[row] = static_cast<int32_t>(slot);
}

}  // namespace

int64_t expert_sort_chunks(int64_t slots) { return (slots + kChunk - 1) / kChunk; }

cudaError_t expert_sort_cuda(const ExpertSortCuda& call, cudaStream_t stream) {
  const int64_t rows = expert_rows_bound(call.slots, call.experts);
  if (call.experts < 1 || call.experts > kMostExperts || call.k < 1 || rows >= (int64_t{1} << 31))
    return cudaErrorInvalidValue;
  for (int32_t* none : {call.token, call.slot})
    if (const cudaError_t e = cudaMemsetAsync(none, 0xff, static_cast<size_t>(rows) * 4, stream); e != cudaSuccess)
      return e;
  const unsigned chunks = static_cast<unsigned>(expert_sort_chunks(call.slots));
  const int shared = kWarps * call.experts * 4;
  for (const auto kernel : {count_kernel, place_kernel})
    if (const cudaError_t e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
        e != cudaSuccess)
      return e;
  if (chunks > 0) count_kernel<<<chunks, kChunk, shared, stream>>>(call);
  begin_kernel<<<1, kMostExperts, 0, stream>>>(call, static_cast<int>(chunks));
  if (chunks > 0) place_kernel<<<chunks, kChunk, shared, stream>>>(call);
  return cudaGetLastError();
}

}  // namespace siamese::kernels
