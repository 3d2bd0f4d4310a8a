// The other operators of `siamese bench --ops`: within the sub-layers, at the ends of the model, and the optimizer.
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "cli/bench_ops.h"
#include "kernels/adamw_table.h"
#include "ops/activation.h"
#include "ops/adamw.h"
#include "ops/cross_entropy.h"
#include "ops/lm_head_loss.h"
#include "ops/qkv_rope.h"

namespace siamese::cli {
namespace {

using at::Tensor;

template <class Signature>
auto operator_of(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

void bench_activation(OpTimer& timer, Activation kind, const char* name, int64_t tokens, int64_t width) {
  const std::string op = fmt::format("activation {}", name), size = fmt::format("{} x {}", width, tokens);
  if (!timer.wants(op)) return;
  const auto forward = operator_of<Tensor(const Tensor&, int64_t)>("siamese::activation");
  const auto backward = operator_of<std::tuple<Tensor, Tensor>(const Tensor&, const Tensor&, int64_t, bool)>(
      "siamese::activation_backward");
  const int64_t columns = kind == Activation::swiglu ? 2 * width : width, number = static_cast<int64_t>(kind);
  const auto p = noise_sets(timer, {tokens, columns}), g = noise_sets(timer, {tokens, width});
  const int64_t in = bytes_of_rows({p[0]}), out = bytes_of_rows({g[0]});
  timer.row(op, size, "forward", in + out, [&](int i) { forward.call(p[static_cast<size_t>(i)], number); });
  for (const bool again : {false, true})  // the training step rebuilds the output in the same pass
    timer.row(op, size, again ? "backward+output" : "backward", 2 * in + (again ? 2 : 1) * out,
              [&](int i) { backward.call(g[static_cast<size_t>(i)], p[static_cast<size_t>(i)], number, again); });
}

void bench_qkv(OpTimer& timer, int64_t batch, int64_t length, int64_t heads, int64_t kv_heads, bool normed) {
  const std::string op = fmt::format("qkv_rope{}", normed ? " with norms" : "");
  if (!timer.wants(op)) return;
  constexpr int64_t kDim = 64;
  const auto qkv = noise_sets(timer, {batch, length, heads + 2 * kv_heads, kDim}),
             gq = noise_sets(timer, {batch, length, heads, kDim}),
             gk = noise_sets(timer, {batch, length, kv_heads, kDim}),
             gv = noise_sets(timer, {batch, length, kv_heads, kDim});
  AttentionCore core;
  core.heads = heads, core.kv_heads = kv_heads, core.head_dim = kDim;
  const Tensor angle = at::randn({length, kDim / 2}, qkv[0].options().dtype(at::kFloat));
  core.cos = at::cos(angle), core.sin = at::sin(angle);
  if (normed)
    for (Norm& norm : core.norm) norm = {true, NormKind::rms, 1e-5, at::ones({kDim}, qkv[0].options()), {}};
  const std::string size = fmt::format("({}+2*{}) x {} x {}", heads, kv_heads, kDim, batch * length);
  const int64_t all = bytes_of_rows({qkv[0]}), rotated = all * (heads + kv_heads) / (heads + 2 * kv_heads);
  const Tensor out = at::empty_like(qkv[0]);
  // Without norms q and k are turned in place and v stays where it is; with norms the raw values are kept.
  timer.row(op, size, "forward", 2 * (normed ? all : rotated), [&](int set) {
    const auto i = static_cast<size_t>(set);
    qkv_rope_out(normed ? out : qkv[i], qkv[i], core);
  });
  timer.row(op, size, "backward", (normed ? 3 : 2) * all, [&](int set) {
    const auto i = static_cast<size_t>(set);
    qkv_rope_backward(gq[i], gk[i], gv[i], qkv[i], core);
  });
}

void bench_cross_entropy(OpTimer& timer, int64_t tokens, int64_t vocab) {
  const std::string op = "cross_entropy_rows";
  if (!timer.wants(op)) return;
  const int64_t rows = head_chunk_rows(tokens, vocab, 2, true);
  const auto logits = noise_sets(timer, {rows, vocab});
  const auto options = logits[0].options();
  const Tensor targets = at::randint(vocab, {rows}, options.dtype(at::kLong)),
               losses = at::empty({rows}, options.dtype(at::kFloat)), squares = at::empty_like(losses),
               count = at::full({}, static_cast<double>(tokens), losses.options());
  for (const bool gradient : {false, true})  // the gradient takes the place of the logits
    timer.row(op, fmt::format("{} x {}", vocab, rows), gradient ? "forward+gradient" : "forward",
              (gradient ? 2 : 1) * bytes_of_rows({logits[0]}), [&](int set) {
                cross_entropy_rows_(logits[static_cast<size_t>(set)], targets, count, losses, squares, {}, gradient);
              });
}

void bench_embedding(OpTimer& timer, int64_t tokens, int64_t d, int64_t vocab) {
  const std::string op = "embedding";
  if (!timer.wants(op)) return;
  const auto backward = operator_of<Tensor(const Tensor&, const Tensor&, c10::SymInt)>("siamese::embedding_backward");
  const auto g = noise_sets(timer, {tokens, d});
  const Tensor ids = at::randint(vocab, {tokens}, g[0].options().dtype(at::kLong));
  timer.row(op, fmt::format("{} of {} x {}", tokens, vocab, d), "backward",
            bytes_of_rows({g[0]}) + vocab * d * static_cast<int64_t>(g[0].element_size()),
            [&](int set) { backward.call(g[static_cast<size_t>(set)], ids, vocab); });
}

template <class Row>
Tensor to_bytes(const std::vector<Row>& rows, at::Device device) {
  Tensor bytes = at::empty({static_cast<int64_t>(rows.size() * sizeof(Row))}, at::kByte);
  std::memcpy(bytes.mutable_data_ptr(), rows.data(), rows.size() * sizeof(Row));
  return bytes.to(device);
}

/// Parameters in bf16 with fp32 master weights, in matrices of the size that models have. One set is far beyond the
/// cache by itself.
void bench_adamw(OpTimer& timer) {
  const std::string op = "adamw";
  if (!timer.wants(op)) return;
  constexpr int64_t kMatrices = 48, kCount = 2048 * 2048, kAll = kMatrices * kCount;
  const auto options = at::TensorOptions().device(timer.device);
  const Tensor state = at::full({3, kAll}, 0.01, options.dtype(at::kFloat)),  // master, m, v
      values = at::full({2, kAll}, 0.01, options.dtype(at::kBFloat16));       // parameter, gradient
  std::vector<kernels::AdamwTensor> tensors;
  std::vector<kernels::AdamwGradient> gradients;
  std::vector<kernels::AdamwChunk> chunks;
  for (int64_t i = 0; i < kMatrices; ++i) {
    auto at = [&](int64_t row) { return state[row].mutable_data_ptr<float>() + i * kCount; };
    auto half = [&](int64_t row) { return static_cast<char*>(values[row].mutable_data_ptr()) + 2 * i * kCount; };
    tensors.push_back({half(0), at(0), at(1), at(2), nullptr, kCount, i * kCount, 1, 1.0});
    gradients.push_back({half(1), 1});
    for (int64_t chunk = 0; chunk < kCount / kernels::kAdamwChunk; ++chunk)
      chunks.push_back({static_cast<int32_t>(i), static_cast<int32_t>(chunk)});
  }
  kernels::AdamwControl control{};
  control.clip = 1, control.beta1 = 0.9, control.beta2 = 0.95, control.eps = 1e-8, control.weight_decay = 0.1;
  Tensor block = at::empty({static_cast<int64_t>(sizeof(control) / sizeof(double))}, at::kDouble);
  std::memcpy(block.mutable_data_ptr(), &control, sizeof(control));
  const AdamwBuffers buffers{
      to_bytes(tensors, timer.device), to_bytes(gradients, timer.device), to_bytes(chunks, timer.device),
      at::zeros({static_cast<int64_t>(chunks.size())}, options.dtype(at::kFloat)), block.to(timer.device)};
  adamw_plan(buffers, 1e-4, 1);
  // The gradient is read twice: for the norm, and again once the norm is known. master, m, v in and out, bf16 copy out.
  constexpr int64_t kBytes = 2 * 2 + 2 * 3 * 4 + 2;
  timer.row(op, fmt::format("{} parameters, {} bytes each", kAll, kBytes), "step", kBytes * kAll,
            [&](int) { adamw_step(buffers, {}); });
}

}  // namespace

void bench_layers(OpTimer& timer) {
  bench_activation(timer, Activation::swiglu, "swiglu", 32768, 2816);
  bench_activation(timer, Activation::swiglu, "swiglu", 16384, 8192);
  bench_activation(timer, Activation::gelu, "gelu", 50432, 1536);
  bench_activation(timer, Activation::gelu_tanh, "gelu_tanh", 65536, 3072);
  for (const bool normed : {false, true}) {
    bench_qkv(timer, 16, 2048, 16, 16, normed);
    bench_qkv(timer, 4, 4096, 32, 8, normed);
  }
}

void bench_ends(OpTimer& timer) {
  bench_cross_entropy(timer, 32768, 50304);
  bench_cross_entropy(timer, 16384, 100352);
  bench_embedding(timer, 32768, 1024, 50304);
  bench_embedding(timer, 16384, 2048, 100352);
  bench_adamw(timer);
}

}  // namespace siamese::cli
