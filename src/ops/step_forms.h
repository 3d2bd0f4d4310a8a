// What a stream step may consist of, described once for tests and benchmarks.
#pragma once

#include <vector>

namespace siamese {

/// Which parts of the formula exist.
struct StepForm {
  const char* name;
  bool x = false, y = false, r = false;
  bool norm_x = false, norm_y = false, norm_in = false, c1 = false;
  double a = 1.0;
  // What the CPU computes around its kernels.
  bool norm_r = false, skip_y = false, gate = false, row_scale = false, modulation = false;

  bool per_sample() const { return gate || row_scale || modulation; }
};

inline const std::vector<StepForm>& step_forms() {
  static const std::vector<StepForm> forms = {
      // the reads of the schemes that fuse, each without and with a pending update
      {.name = "norm_only", .y = true, .norm_y = true},
      {.name = "pre", .y = true, .r = true, .norm_y = true},
      {.name = "post_first", .x = true, .norm_x = true},
      {.name = "post", .x = true, .r = true, .norm_x = true},
      {.name = "siamese_first", .x = true, .y = true, .norm_x = true, .norm_y = true, .norm_in = true, .a = 0.5},
      {.name = "siamese", .x = true, .y = true, .r = true, .norm_x = true, .norm_y = true, .norm_in = true, .a = 0.5},
      {.name = "siamese_no_input_norm", .x = true, .y = true, .r = true, .norm_x = true, .norm_y = true, .a = 0.5},
      {.name = "siamese_no_depth_scale",
       .x = true,
       .y = true,
       .r = true,
       .norm_x = true,
       .norm_y = true,
       .norm_in = true},
      {.name = "hybrid_first", .x = true, .y = true, .norm_y = true, .c1 = true},
      {.name = "hybrid", .x = true, .y = true, .r = true, .norm_y = true, .c1 = true, .a = 0.7},
      // ends without a final norm (DiT), and what no scheme asks for but the operator promises
      {.name = "write_only_y", .y = true, .r = true},
      {.name = "write_only_x", .x = true, .r = true, .a = 0.3},
      {.name = "hybrid_input_norm",
       .x = true,
       .y = true,
       .r = true,
       .norm_y = true,
       .norm_in = true,
       .c1 = true,
       .a = 0.7},
      {.name = "x_then_input_norm", .x = true, .r = true, .norm_x = true, .norm_in = true, .a = 0.5},
      {.name = "sum_then_input_norm", .x = true, .y = true, .r = true, .norm_in = true, .a = 0.5},
  };
  return forms;
}

/// Forms that the CPU computes around its kernels.
inline const std::vector<StepForm>& extended_forms() {
  static const std::vector<StepForm> forms = {
      {.name = "reordered", .y = true, .r = true, .norm_r = true},
      {.name = "sandwich", .y = true, .r = true, .norm_y = true, .norm_r = true},
      {.name = "resi_dual", .x = true, .y = true, .r = true, .norm_x = true, .skip_y = true},
      {.name = "pre_adaln", .y = true, .r = true, .norm_y = true, .gate = true, .modulation = true},
      {.name = "pre_drop_path", .y = true, .r = true, .norm_y = true, .row_scale = true},
      {.name = "sandwich_gated",
       .y = true,
       .r = true,
       .norm_y = true,
       .norm_r = true,
       .gate = true,
       .row_scale = true,
       .modulation = true},
      {.name = "siamese_adaln",
       .x = true,
       .y = true,
       .r = true,
       .norm_x = true,
       .norm_y = true,
       .norm_in = true,
       .a = 0.5,
       .gate = true,
       .row_scale = true,
       .modulation = true},
      {.name = "first_adaln", .y = true, .norm_y = true, .modulation = true},
  };
  return forms;
}

}  // namespace siamese
