#include "kernels/cuda/cross_entropy.h"

#include <type_traits>

#include "kernels/cuda/cross_entropy_ahead.cuh"
#include "kernels/cuda/early_launch.cuh"
#include "kernels/cuda/processors.h"
#include "kernels/cuda/vec.cuh"

namespace siamese::kernels {
namespace {

constexpr int kInFlight = 4;  // vectors of eight values a thread loads before it uses them
constexpr int kMaxThreads = 1024;

enum class Pass { loss, staged, twice };  // no gradient; the row kept in shared memory; the row read again

/// Over all threads of the block; the same bits in every thread. Called once a kernel.
__device__ Softmax block_merge(Softmax s) {
  __shared__ Softmax parts[kMaxThreads / 32], whole;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  s = warp_merge(s);
  if (lane == 0) parts[warp] = s;
  __syncthreads();
  if (warp == 0) {
    s = lane < static_cast<int>(blockDim.x) / 32 ? parts[lane] : Softmax{kNone, 0.f};
    s = warp_merge(s);
    if (lane == 0) whole = s;
  }
  __syncthreads();
  return whole;
}

/// A row as vectors of eight that begin at a 16-byte boundary, and the few elements before and after them: an address
/// need not be aligned, the row length need not be even. Every thread takes at most one of the few.
template <class T>
struct Row {
  T *begin, *body;
  int vectors, edge;  // edge: this thread's element outside the body, or -1

  __device__ Row(T* row, int vocab) : begin(row) {
    const int misaligned = static_cast<int>(reinterpret_cast<uintptr_t>(row) % 16);
    const int head = min(vocab, (16 - misaligned) % 16 / static_cast<int>(sizeof(T)));
    body = row + head;
    vectors = (vocab - head) / 8;
    const int outside = vocab - 8 * vectors, t = static_cast<int>(threadIdx.x);  // 14 at most
    edge = t >= outside ? -1 : t < head ? t : 8 * vectors + t;
  }
};

/// This thread's part of the softmax; `stage` (null: none) receives its vectors as they are read.
template <class T>
__device__ Softmax read_row(const Row<T>& row, Raw8<T>* stage) {
  const int step = static_cast<int>(blockDim.x);
  Softmax s{kNone, 0.f};
  if (row.edge >= 0) s = {to_float(row.begin[row.edge]), 1.f};
  for (int first = static_cast<int>(threadIdx.x); first < row.vectors; first += kInFlight * step) {
    Raw8<T> raw[kInFlight];
#pragma unroll
    for (int u = 0; u < kInFlight; ++u)
      if (first + u * step < row.vectors) raw[u] = fetch8(row.body + 8 * (first + u * step));
    float max = s.max;
#pragma unroll
    for (int u = 0; u < kInFlight; ++u) {
      if (first + u * step >= row.vectors) continue;
      const Float8 f = widen(raw[u]);
#pragma unroll
      for (int i = 0; i < 8; ++i) max = fmaxf(max, f.v[i]);
    }
    const float reference = reference_of(max);
    float sum = s.sum * exp_from(s.max, reference);
#pragma unroll
    for (int u = 0; u < kInFlight; ++u) {
      if (first + u * step >= row.vectors) continue;
      const Float8 f = widen(raw[u]);
#pragma unroll
      for (int i = 0; i < 8; ++i) sum += exp_from(f.v[i], reference);
      if (stage != nullptr) stage[first + u * step] = raw[u];
    }
    s = {max, sum};
  }
  return s;
}

/// g_j = exp(z_j - max)·factor - [j = target]·hit over the row. A thread reads only what it wrote to the stage itself,
/// and overwrites only what it read itself: no barrier is needed between the two passes.
template <class T>
__device__ void write_row(const Row<T>& row, const Raw8<T>* stage, float edge_value, float max, float factor,
                          int target, float hit) {
  const int inside = target - static_cast<int>(row.body - row.begin);
  const int hit_vector = target >= 0 && inside >= 0 ? inside / 8 : -1;  // at the row's end: one that does not exist
#pragma unroll 2
  for (int i = static_cast<int>(threadIdx.x); i < row.vectors; i += static_cast<int>(blockDim.x)) {
    Float8 f = widen(stage != nullptr ? stage[i] : fetch8(row.body + 8 * i));
#pragma unroll
    for (int j = 0; j < 8; ++j) f.v[j] = exp_from(f.v[j], max) * factor;
    if (i == hit_vector) {
#pragma unroll
      for (int j = 0; j < 8; ++j)
        if (j == inside % 8) f.v[j] -= hit;
    }
    store8(row.body + 8 * i, f);
  }
  if (row.edge >= 0)
    row.begin[row.edge] = from_float<T>(exp_from(edge_value, max) * factor - (row.edge == target ? hit : 0.f));
}

template <class T, Pass pass>
__global__ void __launch_bounds__(kMaxThreads) cross_entropy_kernel(const CrossEntropyCuda p) {
  extern __shared__ uint4 staged[];
  Raw8<T>* const stage = pass == Pass::staged ? reinterpret_cast<Raw8<T>*>(staged) : nullptr;
  const int64_t number = blockIdx.x;
  const Row<T> row(static_cast<T*>(p.logits) + number * p.vocab, static_cast<int>(p.vocab));
  // Not used before the row is read, so that nothing waits for them.
  const int64_t wanted = p.targets[number];
  const float count = *p.count;
  Softmax s = read_row(row, stage);

  const bool counts = wanted != p.ignore;
  const int target = counts && wanted >= 0 && wanted < p.vocab ? static_cast<int>(wanted) : -1;
  // Read before anything is overwritten: block_merge's barriers lie between.
  const float right = target >= 0 ? to_float(row.begin[target]) : counts ? __int_as_float(0x7fffffff) : 0.f;
  const float edge_value = row.edge >= 0 ? to_float(row.begin[row.edge]) : 0.f;
  s = block_merge(s);
  const float lse = s.max + logf(s.sum);
  if (threadIdx.x == 0) {
    p.losses[number] = counts ? lse - right : 0.f;
    p.squares[number] = lse * lse;
  }
  if constexpr (pass != Pass::loss) {
    const float hit = counts ? p.scale / count : 0.f;
    write_row(row, stage, edge_value, s.max, (hit + p.z_factor * lse) / s.sum, target, hit);
  }
}

template <class T, Pass pass>
cudaError_t launch(const CrossEntropyCuda& p, int threads, int64_t shared, cudaStream_t stream) {
  const auto kernel = cross_entropy_kernel<T, pass>;
  if (shared > 0) {
    // Set at every launch: the attributes belong to the current device.
    cudaError_t error =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared));
    if (error != cudaSuccess) return error;
    error =
        cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared);
    if (error != cudaSuccess) return error;
  }
  kernel<<<static_cast<unsigned>(p.rows), static_cast<unsigned>(threads), static_cast<size_t>(shared), stream>>>(p);
  return cudaGetLastError();
}

/// Whether it serves; then `error` says how it went. Of rows with up to two vectors a thread, several blocks of the
/// other kernel fit on a multiprocessor and read ahead for each other.
bool launch_ahead(const CrossEntropyCuda& p, int most_bytes, cudaStream_t stream, cudaError_t* error) {
  const int64_t vectors = p.vocab / 8, bytes = AheadMemory::bytes(vectors);
  int processors = 0;
  if (!p.gradient || p.vocab % 8 != 0 || reinterpret_cast<uintptr_t>(p.logits) % 16 != 0 || bytes > most_bytes ||
      vectors <= 2 * kAheadThreads || vectors > kAheadVectors * kAheadThreads || !built_for_hopper() ||
      count_processors(&processors) != cudaSuccess)
    return false;
  const auto kernel = cross_entropy_ahead_kernel;
  *error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  if (*error != cudaSuccess) return true;
  const int64_t blocks = p.rows < processors ? p.rows : processors;
  kernel<<<static_cast<unsigned>(blocks), kAheadThreads, static_cast<size_t>(bytes), stream>>>(p);
  *error = cudaGetLastError();
  return true;
}

template <class T>
cudaError_t dispatch(const CrossEntropyCuda& p, cudaStream_t stream) {
  int device = 0, per_block = 0, per_processor = 0;
  for (const cudaError_t error :
       {cudaGetDevice(&device), cudaDeviceGetAttribute(&per_block, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
        cudaDeviceGetAttribute(&per_processor, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device)})
    if (error != cudaSuccess) return error;
  constexpr int64_t kOther = 2048;  // block_merge's and what the system keeps of each block
  if constexpr (std::is_same_v<T, bfloat>)
    if (cudaError_t e = cudaSuccess; launch_ahead(p, per_block, stream, &e)) return e;
  const int64_t shared = p.vocab / 8 * static_cast<int64_t>(sizeof(Raw8<T>));
  const bool fits = shared + kOther <= per_block;
  // Two blocks a multiprocessor, so that one reads while the other writes; where only one fits, twice the threads.
  const int64_t most = p.gradient && 2 * (shared + kOther) > per_processor ? kMaxThreads : kMaxThreads / 2;
  const int64_t useful = (p.vocab / 8 + 31) / 32 * 32;
  const int threads = static_cast<int>(useful < 32 ? 32 : useful < most ? useful : most);
  if (!p.gradient) return launch<T, Pass::loss>(p, threads, 0, stream);
  if (!fits) return launch<T, Pass::twice>(p, threads, 0, stream);
  return launch<T, Pass::staged>(p, threads, shared, stream);
}

}  // namespace

cudaError_t cross_entropy_cuda(const CrossEntropyCuda& p, cudaStream_t stream) {
  if (p.vocab < 1 || p.vocab > INT32_MAX / 2 || p.rows > INT32_MAX) return cudaErrorInvalidValue;
  if (p.rows == 0) return cudaSuccess;
  return p.type == 0 ? dispatch<float>(p, stream) : p.type == 2 ? dispatch<bfloat>(p, stream) : cudaErrorInvalidValue;
}

}  // namespace siamese::kernels
