// Whether and how a call runs by tiles (step_tile.cuh).
#pragma once

#include "kernels/cuda/early_launch.cuh"
#include "kernels/cuda/step_tile.cuh"

namespace siamese::kernels::tile {

/// Threads a row, rows at once and tiles ahead of a block; blocks of the launch.
struct Shape {
  int threads = 0, groups = 0, bytes = 0, blocks = 0;
  Plan plan;
};

/// adaLN takes part: vectors that depend on the sample.
inline bool by_sample(const StepCuda& call) {
  return call.gate != nullptr || call.scale != nullptr || call.shift != nullptr;
}

/// Streams in bf16, whole rows; with adaLN two of the forms under LayerNorm. `form` is set where this holds.
inline bool form_of(const StepCuda& call, Form* form) {
  if (call.types != StepTypes::bf16_bf16 || call.width != call.d || call.rows >= (int64_t{1} << 30)) return false;
  const bool x = call.x != nullptr, y = call.y != nullptr, reads_y = y && !call.skip_y;
  if (call.norm_r) {
    *form = Form::sandwich;
    return !x && reads_y && call.r != nullptr && !call.norm_in && !by_sample(call);
  }
  if (x && !reads_y) {
    *form = y ? Form::dual : Form::post;
    return call.norm_x && !call.norm_y && !call.norm_in && !by_sample(call);
  }
  if (!reads_y || !call.norm_y || (call.norm_in && !call.norm_x) || (!x && call.norm_x) ||
      (x && !call.norm_x && call.c1 == nullptr))
    return false;
  *form = !x ? Form::pre : call.norm_x ? Form::whole : Form::mixed;
  return !by_sample(call) || (call.layer && *form != Form::mixed);
}

/// The parts of a sample that leave the fewest processors without work, `groups` tiles at once; 0 where there are none.
inline int parts_of_sample(int64_t samples, int64_t tiles, int groups, int processors) {
  int best = 0;
  int64_t least = 0;
  for (int64_t parts = 1; parts * groups <= tiles; ++parts) {
    if (tiles % parts != 0) continue;
    const int64_t rounds = (samples * parts + processors - 1) / processors, change = 2;  // of vectors, in tiles
    const int64_t time = rounds * ((tiles / parts + groups - 1) / groups + change);
    if (best == 0 || time < least) best = static_cast<int>(parts), least = time;
  }
  return best;
}

/// SIAMESE_TILE_GROUPS=1 has blocks of one group: compute-sanitizer's racecheck takes a barrier among a part of a
/// block's threads for one among all of them.
inline int most_groups() {
  static const int most = [] {
    const char* given = std::getenv("SIAMESE_TILE_GROUPS");
    const int n = given != nullptr ? std::atoi(given) : 0;
    return n > 0 ? n : 32;
  }();
  return most;
}

/// As many rows at once as this device's shared memory has room for; false where there is no shape.
template <class C>
bool shape_for(const Needs& needs, const StepCuda& call, Shape* out) {
  const int64_t threads = call.d / C::E;
  if (call.d % (32 * C::E) != 0 || threads > C::threads || (C::warp && threads != 32) || call.rows % C::R != 0)
    return false;
  int device = 0, processors = 0, most = 0;
  if (!built_for_hopper() || cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device) != cudaSuccess ||
      cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) != cudaSuccess)
    return false;
  const int64_t tiles = call.rows / C::R, of_sample = tiles / call.samples;
  if (by_sample(call) && call.rows / call.samples % C::R != 0) return false;
  const int d = static_cast<int>(call.d), named_barriers = 15;
  out->threads = static_cast<int>(threads), out->blocks = static_cast<int>(tiles < processors ? tiles : processors);
  out->groups = C::threads / out->threads;
  if (out->groups > most_groups()) out->groups = most_groups();
  if (!C::warp && out->groups > named_barriers) out->groups = named_barriers;
  if (by_sample(call) && out->groups > of_sample) out->groups = static_cast<int>(of_sample);
  for (; out->groups > 0; --out->groups)
    for (out->plan.stages = C::stages; out->plan.stages >= 2; --out->plan.stages) {
      out->bytes = Layout(needs, d, out->threads, out->groups, out->plan.stages, C::R).bytes;
      if (out->bytes > most) continue;
      if (!by_sample(call)) return true;
      out->plan.parts = parts_of_sample(call.samples, of_sample, out->groups, processors);
      if (out->plan.parts == 0) return false;
      out->plan.tiles = static_cast<int>(of_sample / out->plan.parts);
      const int64_t parts = call.samples * out->plan.parts;
      out->blocks = static_cast<int>(parts < processors ? parts : processors);
      return true;
    }
  return false;
}

inline cudaError_t launch(void (*kernel)(StepCuda, Plan), const StepCuda& call, const Shape& shape,
                          cudaStream_t stream) {
  if (const cudaError_t e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shape.bytes);
      e != cudaSuccess)
    return e;
  kernel<<<static_cast<unsigned>(shape.blocks),
           dim3(static_cast<unsigned>(shape.threads), static_cast<unsigned>(shape.groups)),
           static_cast<size_t>(shape.bytes), stream>>>(call, shape.plan);
  return cudaGetLastError();
}

}  // namespace siamese::kernels::tile
