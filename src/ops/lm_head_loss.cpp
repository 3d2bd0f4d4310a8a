#include "ops/lm_head_loss.h"

#include "ops/cross_entropy.h"
#include "ops/gemm.h"
#include "ops/linear.h"

namespace siamese {
namespace {

using at::Tensor;
using torch::autograd::variable_list;

void check(const Tensor& hidden, const Tensor& weight, const Tensor& targets, int64_t chunk_rows) {
  TORCH_CHECK(hidden.dim() == 2, "[lm_head_loss] hidden must have 2 dimensions but has ", hidden.dim());
  TORCH_CHECK(weight.dim() == 2 && weight.sym_size(1) == hidden.sym_size(1),
              "[lm_head_loss] weight must be [vocabulary, ", hidden.sym_size(1), "] but is ", weight.sym_sizes());
  TORCH_CHECK(weight.sym_size(0) > 0, "[lm_head_loss] weight must have rows");
  TORCH_CHECK(weight.scalar_type() == hidden.scalar_type(), "[lm_head_loss] weight is ", weight.scalar_type(),
              " but hidden is ", hidden.scalar_type());
  TORCH_CHECK(targets.dim() == 1 && targets.sym_size(0) == hidden.sym_size(0), "[lm_head_loss] targets must be [",
              hidden.sym_size(0), "] but are ", targets.sym_sizes());
  TORCH_CHECK(targets.scalar_type() == at::kLong, "[lm_head_loss] targets must be int64 but are ",
              targets.scalar_type());
  TORCH_CHECK(weight.device() == hidden.device() && targets.device() == hidden.device(),
              "[lm_head_loss] weight and targets must be on ", hidden.device(), " but are on ", weight.device(),
              " and ", targets.device());
  TORCH_CHECK(chunk_rows >= 0, "[lm_head_loss] chunk_rows must not be negative but is ", chunk_rows);
}

at::ScalarType sum_type(const Tensor& t) { return t.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }

/// g_weight (+)= zᵀ·x over the chunks. bf16 chunks are added up in fp32; cuBLAS does so inside the product.
void add_weight_gradient(Tensor& sum, const Tensor& z, const Tensor& x, bool only) {
  const bool first = !sum.defined();
  if (only || sum_type(z) == z.scalar_type()) {
    if (first)
      sum = at::mm(z.t(), x);
    else
      sum.addmm_(z.t(), x);
  } else if (z.is_cuda()) {
    if (first)
      sum = at::mm(z.t(), x, at::kFloat);
    else
      at::addmm_out(sum, sum, z.t(), x, at::kFloat);
  } else {
    const Tensor product = at::mm(z.t(), x).to(at::kFloat);
    if (first)
      sum = product;
    else
      sum.add_(product);
  }
}

/// The rows of g_hidden from `begin` on ← z·weight.
void put_hidden_gradient(Tensor& g_hidden, int64_t begin, const Tensor& z, const Tensor& weight, bool only) {
  const Tensor rows = z.is_cpu() ? project(z, weight.t()) : gemm(z, weight, false, false);
  if (only)
    g_hidden = rows;
  else
    g_hidden.slice(0, begin, begin + z.size(0)).copy_(rows);
}

using WithGradients = std::tuple<Tensor, Tensor, Tensor, Tensor>;

/// total, ce and the gradients of hidden and weight; empty tensors stand for those that nobody wants.
WithGradients run(const Tensor& hidden_in, const Tensor& weight_in, const Tensor& targets_in, int64_t ignore,
                  double z_weight, double scale, int64_t chunk_rows, bool want_hidden, bool want_weight) {
  check(hidden_in, weight_in, targets_in, chunk_rows);
  const at::NoGradGuard no_grad;
  const Tensor hidden = hidden_in.contiguous(), weight = weight_in.contiguous(), targets = targets_in.contiguous();
  const int64_t rows = hidden.size(0), vocab = weight.size(0);
  if (chunk_rows == 0)
    chunk_rows = head_chunk_rows(rows, vocab, static_cast<int64_t>(hidden.element_size()), !hidden.is_cpu());
  const bool only = chunk_rows >= rows;
  const auto numbers = hidden.options().dtype(sum_type(hidden));
  const Tensor count = at::sum(targets.ne(ignore)).to(numbers.dtype());  // stays on the device
  const Tensor losses = at::empty({rows}, numbers), squares = at::empty({rows}, numbers);
  const double z_factor = z_weight > 0 ? 2 * scale * z_weight / static_cast<double>(std::max<int64_t>(rows, 1)) : 0.0;
  Tensor g_hidden = at::empty({want_hidden && !only ? rows : 0, hidden.size(1)}, hidden.options()), g_weight;
  for (int64_t begin = 0; begin < rows; begin += chunk_rows) {
    const int64_t end = std::min(rows, begin + chunk_rows);
    const Tensor x = hidden.slice(0, begin, end);
    const Tensor z = project(x, weight);
    cross_entropy_rows_(z, targets.slice(0, begin, end), count, losses.slice(0, begin, end),
                        squares.slice(0, begin, end), {ignore, scale, z_factor}, want_hidden || want_weight);
    if (want_hidden) put_hidden_gradient(g_hidden, begin, z, weight, only);
    if (want_weight) add_weight_gradient(g_weight, z, x, only);
  }
  if (!want_weight)
    g_weight = at::empty({0}, weight.options());
  else if (!g_weight.defined())
    g_weight = at::zeros_like(weight);  // there were no rows
  const Tensor ce = at::sum(losses, at::kDouble) / count;
  const Tensor total = scale * (z_weight > 0 ? ce + z_weight * at::mean(squares, at::kDouble) : ce);
  return {total.to(numbers.dtype()), ce.to(numbers.dtype()), g_hidden, g_weight.to(weight.scalar_type())};
}

std::tuple<Tensor, Tensor> loss_only(const Tensor& hidden, const Tensor& weight, const Tensor& targets, int64_t ignore,
                                     double z_weight, double scale, int64_t chunk_rows) {
  auto [total, ce, g_hidden, g_weight] =
      run(hidden, weight, targets, ignore, z_weight, scale, chunk_rows, false, false);
  return {total, ce};
}

WithGradients run_meta(const Tensor& hidden, const Tensor& weight, const Tensor& targets, int64_t, double, double,
                       int64_t chunk_rows, bool want_hidden, bool want_weight) {
  check(hidden, weight, targets, chunk_rows);
  const auto numbers = hidden.options().dtype(sum_type(hidden));
  return {at::empty({}, numbers), at::empty({}, numbers),
          at::empty_symint({want_hidden ? hidden.sym_size(0) : 0, hidden.sym_size(1)}, hidden.options()),
          want_weight ? at::empty_symint(weight.sym_sizes(), weight.options()) : at::empty({0}, weight.options())};
}
std::tuple<Tensor, Tensor> loss_meta(const Tensor& hidden, const Tensor& weight, const Tensor& targets, int64_t ignore,
                                     double z_weight, double scale, int64_t chunk_rows) {
  auto [total, ce, g_hidden, g_weight] =
      run_meta(hidden, weight, targets, ignore, z_weight, scale, chunk_rows, false, false);
  return {total, ce};
}

std::tuple<Tensor, Tensor> call(const Tensor& hidden, const Tensor& weight, const Tensor& targets, int64_t ignore,
                                double z_weight, double scale, int64_t chunk_rows) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("siamese::lm_head_loss", "").typed<decltype(call)>();
  return op.call(hidden, weight, targets, ignore, z_weight, scale, chunk_rows);
}
WithGradients call_gradients(const Tensor& hidden, const Tensor& weight, const Tensor& targets, int64_t ignore,
                             double z_weight, double scale, int64_t chunk_rows, bool want_hidden, bool want_weight) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("siamese::lm_head_loss_gradients", "")
                             .typed<decltype(call_gradients)>();
  return op.call(hidden, weight, targets, ignore, z_weight, scale, chunk_rows, want_hidden, want_weight);
}

class HeadLossFunction : public torch::autograd::Function<HeadLossFunction> {
 public:
  static variable_list forward(torch::autograd::AutogradContext* ctx, const Tensor& hidden, const Tensor& weight,
                               const Tensor& targets, int64_t ignore, double z_weight, double scale,
                               int64_t chunk_rows) {
    at::AutoDispatchBelowADInplaceOrView guard;
    auto [total, ce, g_hidden, g_weight] = call_gradients(hidden, weight, targets, ignore, z_weight, scale, chunk_rows,
                                                          hidden.requires_grad(), weight.requires_grad());
    ctx->save_for_backward({g_hidden, g_weight});
    ctx->saved_data["spent"] = false;
    ctx->mark_non_differentiable({ce});
    ctx->set_materialize_grads(false);
    return {total, ce};
  }

  static variable_list backward(torch::autograd::AutogradContext* ctx, variable_list g) {
    variable_list result(7);
    if (!g[0].defined()) return result;
    TORCH_CHECK(!ctx->saved_data["spent"].toBool(),
                "[lm_head_loss] its gradients are handed out once: the loss cannot be differentiated a second time");
    ctx->saved_data["spent"] = true;
    const variable_list saved = ctx->get_saved_variables();
    for (size_t i = 0; i < 2; ++i)
      if (ctx->needs_input_grad(i)) result[i] = scale_by_(saved[i], g[0]);
    return result;
  }
};

std::tuple<Tensor, Tensor> loss_autograd(const Tensor& hidden, const Tensor& weight, const Tensor& targets,
                                         int64_t ignore, double z_weight, double scale, int64_t chunk_rows) {
  if (!at::GradMode::is_enabled() || !(hidden.requires_grad() || weight.requires_grad())) {
    at::AutoDispatchBelowADInplaceOrView guard;
    return call(hidden, weight, targets, ignore, z_weight, scale, chunk_rows);
  }
  const variable_list out = HeadLossFunction::apply(hidden, weight, targets, ignore, z_weight, scale, chunk_rows);
  return {out[0], out[1]};
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(siamese, m) {
  m.def(
      "lm_head_loss(Tensor hidden, Tensor weight, Tensor targets, int ignore=-100, float z_weight=0.0, float "
      "scale=1.0, "
      "int chunk_rows=0) -> (Tensor total, Tensor ce)");
  m.def(
      "lm_head_loss_gradients(Tensor hidden, Tensor weight, Tensor targets, int ignore, float z_weight, float scale, "
      "int "
      "chunk_rows, bool want_hidden, bool want_weight) -> (Tensor total, Tensor ce, Tensor g_hidden, Tensor g_weight)");
}
TORCH_LIBRARY_IMPL(siamese, CompositeExplicitAutograd, m) {
  m.impl("lm_head_loss", loss_only);
  m.impl("lm_head_loss_gradients", run);
}
TORCH_LIBRARY_IMPL(siamese, Meta, m) {
  m.impl("lm_head_loss", loss_meta);
  m.impl("lm_head_loss_gradients", run_meta);
}
TORCH_LIBRARY_IMPL(siamese, Autograd, m) { m.impl("lm_head_loss", loss_autograd); }

int64_t head_chunk_rows(int64_t rows, int64_t vocab, int64_t value_bytes, bool gpu) {
  constexpr int64_t kTile = 256;  // rows of a tile of the products
  const int64_t most =
      std::max<int64_t>(1, (gpu ? 850'000'000 : 64'000'000) / std::max<int64_t>(1, vocab * value_bytes));
  if (rows <= most) return std::max<int64_t>(rows, 1);
  if (most < kTile) return most;
  const int64_t tiles = most / kTile, chunks = (rows + tiles * kTile - 1) / (tiles * kTile);
  return ((rows + chunks - 1) / chunks + kTile - 1) / kTile * kTile;
}

HeadLoss lm_head_loss_plain(const Tensor& hidden, const Tensor& weight, const Tensor& targets,
                            const HeadLossOptions& options) {
  const Tensor z = project(hidden, weight).to(sum_type(hidden));
  HeadLoss loss;
  loss.ce = at::cross_entropy_loss(z, targets, {}, at::Reduction::Mean, options.ignore);
  loss.total = loss.ce;
  if (options.z_weight > 0) loss.total = loss.ce + options.z_weight * at::logsumexp(z, -1).square().mean();
  if (options.scale != 1.0) loss.total = loss.total * options.scale;
  return loss;
}

HeadLoss lm_head_loss(const Tensor& hidden, const Tensor& weight, const Tensor& targets, const HeadLossOptions& options,
                      bool fused) {
  if (!fused || (!hidden.is_cpu() && hidden.scalar_type() == at::kDouble))
    return lm_head_loss_plain(hidden, weight, targets, options);
  auto [total, ce] = call(hidden, weight, targets, options.ignore, options.z_weight, options.scale, options.chunk_rows);
  return {total, ce};
}

}  // namespace siamese
