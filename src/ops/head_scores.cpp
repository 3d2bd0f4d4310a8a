#include "ops/head_scores.h"

#include "ops/cross_entropy.h"
#include "ops/linear.h"

namespace siamese {

using at::Tensor;

HeadScores head_scores(const Tensor& hidden, const Tensor& weight, const Tensor& targets,
                       const HeadLossOptions& options, bool fused) {
  const at::NoGradGuard no_grad;
  TORCH_CHECK(hidden.dim() == 2 && targets.dim() == 1 && targets.size(0) == hidden.size(0), "[head_scores] hidden ",
              hidden.sizes(), " and targets ", targets.sizes(), " do not fit");
  const int64_t rows = hidden.size(0), vocab = weight.size(0);
  const bool wide = hidden.scalar_type() == at::kDouble, by_kernel = fused && (hidden.is_cpu() || !wide);
  const int64_t chunk =
      options.chunk_rows > 0
          ? options.chunk_rows
          : head_chunk_rows(rows, vocab, static_cast<int64_t>(hidden.element_size()), !hidden.is_cpu());
  const auto numbers = hidden.options().dtype(wide ? at::kDouble : at::kFloat);
  const Tensor losses = at::empty({rows}, numbers), squares = at::empty({rows}, numbers);
  const Tensor one = at::ones({}, numbers);  // only gradients need the count
  HeadScores scores{{}, at::zeros({}, targets.options())};
  for (int64_t begin = 0; begin < rows; begin += chunk) {
    const int64_t end = std::min(rows, begin + chunk);
    const Tensor x = hidden.slice(0, begin, end), wanted = targets.slice(0, begin, end).contiguous();
    const Tensor z = x.is_cpu() ? project(x, weight) : at::mm(x, weight.t());
    Tensor part = losses.slice(0, begin, end);
    if (by_kernel)
      cross_entropy_rows_(z, wanted, one, part, squares.slice(0, begin, end), {options.ignore, 1.0, 0.0}, false);
    else
      part.copy_(at::cross_entropy_loss(z.to(numbers.dtype()), wanted, {}, at::Reduction::None, options.ignore));
    scores.right += (z.argmax(-1) == wanted).sum();  // `ignore` is no token
  }
  scores.loss = at::sum(losses, at::kDouble);
  return scores;
}

}  // namespace siamese
