#include "ops/attention_choice.h"

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>

#include <cmath>
#include <map>
#include <mutex>

#include "ops/attention_plain.h"
#include "ops/own_attention.h"
#include "ops/random.h"
#include "util/philox.h"

namespace siamese {
namespace {

using at::Tensor;

constexpr long kTrustedCudnn = 91501;  // earlier ones have given wrong gradients
constexpr double kTimesFlash = 2.0;
// Where flash attention refuses the shape: 0.02 is the rounding of bf16, what goes wrong goes wrong by far more.
constexpr double kMostAlone = 0.05;
constexpr double kMostOwn = 0.01;

AttentionResult by_cudnn(const AttentionExample& e) {
  const Attended a = cudnn_forward(e.heads);
  return {a.out, cudnn_backward(e.g, e.heads, a)};
}
AttentionResult by_flash(const AttentionExample& e) {
  const Attended a = flash_forward(e.heads, {}, 0);
  return {a.out, flash_backward(e.g, e.heads, a, {}, 0)};
}

/// All of it, or the backward pass after cuDNN's forward pass.
template <bool after_cudnn>
AttentionResult by_ourselves(const AttentionExample& e) {
  const Tensor qkv = at::cat({e.heads.q, e.heads.k, e.heads.v}, 2);
  const int64_t heads = e.heads.q.size(2), kv_heads = e.heads.k.size(2);
  Tensor out, log_sums;
  if (after_cudnn) {
    const Attended a = cudnn_forward(heads_of(qkv, heads, kv_heads));
    out = a.out, log_sums = a.log_sums;
  } else {
    std::tie(out, log_sums) = own_attention(qkv, heads, kv_heads);
  }
  return {out, heads_of(own_attention_backward(e.g, qkv, out, log_sums, after_cudnn, {}, {}, heads, kv_heads), heads,
                        kv_heads)};
}

/// First line of what an exception says.
std::string said(const std::exception& e) {
  const std::string text = e.what();
  return text.substr(0, text.find('\n'));
}

AttentionChoice decide(const AttentionShape& shape, at::Device device, bool deterministic) {
  const at::NoGradGuard no_grad;
  std::vector<AttentionExample> examples;
  auto worst = [&](AttentionResult (*attend)(const AttentionExample&)) {
    if (examples.empty())  // only once somebody is tried; both are given the same
      for (const auto& [rows, length] : {std::pair(2, 128), std::pair(1, 1000)})
        examples.push_back(attention_example(shape, rows, length, device));
    double error = 0;
    for (const AttentionExample& e : examples) error = std::max(error, attention_error(attend(e), e.wanted));
    return error;
  };
  AttentionChoice choice{false, "deterministic algorithms are asked for"};
  if (!deterministic) {  // cuDNN's backward pass may refuse under deterministic algorithms
    const at::CUDAHooksInterface& cuda = at::detail::getCUDAHooks();
    choice = choose_attention(
        cuda.hasCuDNN() ? cuda.versionRuntimeCuDNN() : 0, [&] { return worst(by_cudnn); },
        [&] { return worst(by_flash); });
  }
  if (!own_attention_fits(shape.head_dim, device)) return choice;
  try {
    const double error = worst(choice.cudnn ? by_ourselves<true> : by_ourselves<false>);
    choice.own = error < kMostOwn;
    choice.why += c10::str("; our own error ", error);
  } catch (const std::exception& e) {
    choice.why += "; our own kernels failed: " + said(e);
  }
  return choice;
}

}  // namespace

AttentionExample attention_example(const AttentionShape& shape, int64_t rows, int64_t length, at::Device device) {
  const auto [heads, kv_heads, dim] = shape;
  const auto random = [&](int64_t count, int64_t number) {
    Tensor t = at::empty({rows, length, count, dim}, at::TensorOptions().device(device).dtype(at::kFloat));
    truncated_normal_(t, 1.0, 3.0, {number, length, kTestSite, 0});  // ours: LibTorch's generator stays where it is
    return t.to(at::kBFloat16);
  };
  AttentionExample e;
  e.heads = heads_of(random(heads + 2 * kv_heads, 1), heads, kv_heads);
  e.g = random(heads, 2);
  e.wanted.out = attention_plain(e.heads).out;
  e.wanted.gradient = attention_plain_backward(e.g, e.heads, e.wanted.out);
  return e;
}

double attention_error(const AttentionResult& got, const AttentionResult& wanted) {
  double worst = 0;
  const std::pair<Tensor, Tensor> pairs[] = {{got.out, wanted.out},
                                             {got.gradient.q, wanted.gradient.q},
                                             {got.gradient.k, wanted.gradient.k},
                                             {got.gradient.v, wanted.gradient.v}};
  for (const auto& [x, y] : pairs) {
    const double error = (x.to(at::kFloat) - y).norm().item<double>() / y.norm().item<double>();
    worst = std::max(worst, std::isfinite(error) ? error : 1e30);
  }
  return worst;
}

AttentionChoice choose_attention(long version, const std::function<double()>& cudnn,
                                 const std::function<double()>& flash) {
  if (version < kTrustedCudnn)
    return {false, c10::str("cuDNN ", version / 10000, '.', version % 10000 / 100, '.', version % 100,
                            " is older than 9.15.1")};
  double error = 0;
  try {
    error = cudnn();
  } catch (const std::exception& e) {
    return {false, "cuDNN refused: " + said(e)};
  }
  const std::string found = c10::str("cuDNN's error against plain attention is ", error);
  try {
    const double other = flash();
    return {error <= kTimesFlash * other, c10::str(found, ", flash attention's ", other)};
  } catch (const std::exception& e) {
    return {error < kMostAlone, c10::str(found, "; flash attention refused: ", said(e))};
  }
}

std::string AttentionChoice::name() const { return cudnn ? (own ? "cudnn+own" : "cudnn") : own ? "own" : "flash"; }

const AttentionChoice& attention_choice(const AttentionShape& shape, at::Device device) {
  const bool deterministic = at::globalContext().deterministicAlgorithms();
  static std::mutex mutex;  // autograd's threads
  static std::map<std::tuple<int, bool, AttentionShape>, AttentionChoice> choices;
  const std::lock_guard lock(mutex);
  const std::tuple<int, bool, AttentionShape> key{device.index(), deterministic, shape};
  const auto known = choices.find(key);
  return known != choices.end() ? known->second
                                : choices.emplace(key, decide(shape, device, deterministic)).first->second;
}

std::string attention_backend(const AttentionShape& shape, at::Device device) {
  const AttentionChoice& choice = attention_choice(shape, device);
  return choice.name() + " (" + choice.why + ")";
}

}  // namespace siamese
