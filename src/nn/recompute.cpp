#include "nn/recompute.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

namespace siamese {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Carries the function through saved_data. It may hold constants, but nothing that leads back to this node.
struct Piece : torch::CustomClassHolder {
  TensorFunction f;
  size_t inputs = 0;
};

class RecomputeFunction : public torch::autograd::Function<RecomputeFunction> {
 public:
  static variable_list forward(AutogradContext* ctx, const c10::intrusive_ptr<Piece>& piece, at::TensorList tensors) {
    const at::NoGradGuard no_grad;
    const variable_list all = tensors.vec();
    const variable_list out = piece->f({all.begin(), all.begin() + static_cast<std::ptrdiff_t>(piece->inputs)});
    ctx->save_for_backward(all);
    ctx->saved_data["piece"] = c10::IValue::make_capsule(piece);
    ctx->set_materialize_grads(false);
    return out;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto piece = c10::static_intrusive_pointer_cast<Piece>(ctx->saved_data["piece"].toCapsule());
    variable_list leaves = ctx->get_saved_variables(), wanted;
    variable_list result(1 + leaves.size());
    std::vector<size_t> index;
    for (size_t i = 0; i < leaves.size(); ++i) {
      if (i < piece->inputs) leaves[i] = leaves[i].detach().set_requires_grad(leaves[i].requires_grad());
      if (leaves[i].requires_grad()) index.push_back(i), wanted.push_back(leaves[i]);
    }
    variable_list out, out_grads;
    {
      const at::AutoGradMode grad(true);
      const variable_list again =
          piece->f({leaves.begin(), leaves.begin() + static_cast<std::ptrdiff_t>(piece->inputs)});
      for (size_t i = 0; i < again.size(); ++i)
        if (grads[i].defined() && again[i].requires_grad()) out.push_back(again[i]), out_grads.push_back(grads[i]);
    }
    if (!out.empty()) {
      const variable_list g = torch::autograd::grad(out, wanted, out_grads, std::nullopt, false, /*allow_unused=*/true);
      for (size_t j = 0; j < index.size(); ++j) result[1 + index[j]] = g[j];
    }
    return result;
  }
};

}  // namespace

std::vector<at::Tensor> recompute(const TensorFunction& f, const std::vector<at::Tensor>& inputs,
                                  const std::vector<at::Tensor>& params) {
  auto piece = c10::make_intrusive<Piece>();
  piece->f = f;
  piece->inputs = inputs.size();
  std::vector<at::Tensor> all = inputs;
  all.insert(all.end(), params.begin(), params.end());
  return RecomputeFunction::apply(piece, at::TensorList(all));
}

}  // namespace siamese
