// CPU and Meta sides of ops/adamw.h.
#include "kernels/adamw.h"
#include "ops/adamw_tables.h"

namespace siamese {
namespace {

using at::Tensor;

kernels::AdamwHostTables host(const AdamwView& v) { return {v.tensors, v.gradients, v.chunks}; }

/// f(begin, end) over the chunks, by all threads.
template <class F>
void over_chunks(const AdamwView& v, const F& f) {
  at::parallel_for(0, v.chunk_count, 1, f);
}

void plan_cpu(const Tensor& control, double lr, int64_t step) {
  adamw_check_step(step);
  kernels::AdamwControl& c = *adamw_control_of(control);
  c.lr = lr, c.step = static_cast<double>(step);
}

void accumulate_cpu(const Tensor& sums, const Tensor& tensors, const Tensor& gradients, const Tensor& chunks,
                    bool add) {
  const AdamwView v(tensors, gradients, chunks, sums.device());
  float* const to = adamw_sums_of(sums);
  over_chunks(v, [&](int64_t begin, int64_t end) { kernels::adamw_accumulate(host(v), begin, end, to, add); });
}

void step_cpu(const Tensor& control, const Tensor& tensors, const Tensor& gradients, const Tensor& chunks,
              const Tensor& partials, const std::optional<Tensor>& loss) {
  const AdamwView v(tensors, gradients, chunks, control.device());
  float* const sums = adamw_partials_of(partials, v, control.device());
  kernels::AdamwControl* const c = adamw_control_of(control);
  over_chunks(v, [&](int64_t begin, int64_t end) { kernels::adamw_squares(host(v), begin, end, sums); });
  kernels::adamw_control(c, sums, v.chunk_count, adamw_loss_of(loss, control.device()));
  over_chunks(v, [&](int64_t begin, int64_t end) { kernels::adamw_update(host(v), begin, end, *c); });
}

// Nothing is returned, so there is no shape to tell.
void plan_meta(const Tensor&, double, int64_t) {}
void accumulate_meta(const Tensor&, const Tensor&, const Tensor&, const Tensor&, bool) {}
void step_meta(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
               const std::optional<Tensor>&) {}

}  // namespace

TORCH_LIBRARY_IMPL(siamese, CPU, m) {
  m.impl("adamw_plan_", plan_cpu);
  m.impl("adamw_accumulate_", accumulate_cpu);
  m.impl("adamw_step_", step_cpu);
}
TORCH_LIBRARY_IMPL(siamese, Meta, m) {
  m.impl("adamw_plan_", plan_meta);
  m.impl("adamw_accumulate_", accumulate_meta);
  m.impl("adamw_step_", step_meta);
}

}  // namespace siamese
