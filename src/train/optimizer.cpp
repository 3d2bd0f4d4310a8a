#include "train/optimizer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

#include "train/gpu_adamw.h"

namespace siamese {
namespace {

constexpr std::string_view kBlocks = "transformer.blocks.";

/// Of a parameter in a block, else -1.
int64_t block_of(const std::string& name) {
  return name.starts_with(kBlocks) ? std::stoll(name.substr(kBlocks.size())) : -1;
}

}  // namespace

double Optimizer::layer_rate(const std::string& name, int64_t blocks, double decay) {
  if (decay == 1.0) return 1.0;
  const bool embedding = name.starts_with("patch_embed") || name.ends_with("_token") || name == "pos_embed";
  const int64_t layer = embedding ? 0 : block_of(name) >= 0 ? block_of(name) + 1 : blocks + 1;
  return std::pow(decay, static_cast<double>(blocks + 1 - layer));
}

Optimizer::Optimizer(const Params& params, const TrainConfig& train) : train_(train) {
  const at::NoGradGuard no_grad;
  int64_t blocks = 0;
  for (const Parameter& p : params.all()) blocks = std::max(blocks, block_of(p.name) + 1);
  for (const Parameter& p : params.all()) {
    if (p.kind == ParamKind::state) {
      states_.push_back(p);
      continue;
    }
    OptimizerSlot s;
    s.parameter = p;
    s.decays = decays(p);
    s.rate = layer_rate(p.name, blocks, train.layer_decay);
    const bool low = p.value.scalar_type() == at::kBFloat16;
    s.master = low ? p.value.detach().to(at::kFloat) : p.value;
    s.m = at::zeros_like(s.master.detach());
    s.v = at::zeros_like(s.m);
    if (train.ema > 0) s.average = s.master.detach().clone();
    slots_.push_back(std::move(s));
  }
  if (params.device().is_cuda() && !slots_.empty()) gpu_ = std::make_unique<GpuAdamW>(slots_, train);
}

Optimizer::~Optimizer() = default;

bool Optimizer::decays(const Parameter& p) const {
  switch (p.kind) {
    case ParamKind::matrix:
      return true;
    case ParamKind::embedding:
      return train_.decay_embeddings;
    case ParamKind::norm:
      return train_.decay_norms;
    case ParamKind::other:
    case ParamKind::state:
      return false;
  }
  return false;
}

void Optimizer::collect() {
  const at::NoGradGuard no_grad;
  if (gpu_) return gpu_->collect(slots_);
  for (OptimizerSlot& s : slots_) {
    at::Tensor g = s.parameter.value.grad();
    if (!g.defined()) continue;
    s.parameter.value.mutable_grad().reset();
    if (g.scalar_type() != s.m.scalar_type()) g = g.to(s.m.scalar_type());
    // The first gradient is taken over as it is; it may be shared or strided, later sums write into it.
    if (!s.gradient.defined()) {
      s.gradient = g.is_contiguous() && g.use_count() == 1 ? g : g.clone(at::MemoryFormat::Contiguous);
    } else {
      s.gradient.add_(g);
    }
  }
}

at::Tensor Optimizer::step(const at::Tensor& loss, double lr, int64_t number) {
  plan(lr, number);
  return apply(loss);
}

void Optimizer::plan(double lr, int64_t number) {
  planned_lr_ = lr;
  planned_number_ = number;
  if (gpu_) gpu_->plan(lr, number);
}

at::Tensor Optimizer::apply(const at::Tensor& loss) {
  const at::NoGradGuard no_grad;
  if (gpu_) {
    const at::Tensor found = gpu_->apply(slots_, loss);
    forget();
    return found;
  }
  const double value = loss.defined() ? loss.item<double>() : 0.0;
  const double norm = std::isfinite(value) ? clip() : std::numeric_limits<double>::quiet_NaN();
  const bool good = std::isfinite(norm);
  if (good) update(planned_lr_, planned_number_);
  return at::tensor({value, norm, good ? 0.0 : static_cast<double>(planned_number_)}, at::kDouble);
}

double Optimizer::clip() {
  TORCH_CHECK(!gpu_, "[optimizer] clip and update are for the CPU: use step");
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> all;
  for (const OptimizerSlot& s : slots_)
    if (s.gradient.defined()) all.push_back(s.gradient);
  if (all.empty()) return 0.0;
  const std::vector<at::Tensor> norms = at::_foreach_norm(all, 2);
  const double norm = at::stack(norms).to(at::kDouble).norm().item<double>();
  if (train_.clip > 0 && std::isfinite(norm) && norm > train_.clip) at::_foreach_mul_(all, train_.clip / (norm + 1e-6));
  return norm;
}

void Optimizer::update(double lr, int64_t number) {
  TORCH_CHECK(!gpu_, "[optimizer] clip and update are for the CPU: use step");
  const at::NoGradGuard no_grad;
  const at::Tensor count = at::scalar_tensor(static_cast<double>(number), at::kFloat);
  std::set<std::pair<bool, double>> groups;
  for (const OptimizerSlot& s : slots_) groups.emplace(s.decays, s.rate);
  for (const auto& [decayed, rate] : groups) {
    std::vector<at::Tensor> p, g, m, v, steps;
    for (OptimizerSlot& s : slots_) {
      if (s.decays != decayed || s.rate != rate) continue;
      if (!s.gradient.defined()) s.gradient = at::zeros_like(s.m);
      p.push_back(s.master), g.push_back(s.gradient), m.push_back(s.m), v.push_back(s.v), steps.push_back(count);
    }
    at::_fused_adamw_(p, g, m, v, {}, steps, rate * lr, train_.beta1, train_.beta2, decayed ? train_.weight_decay : 0.0,
                      train_.eps,
                      /*amsgrad=*/false, /*maximize=*/false);
  }
  for (OptimizerSlot& s : slots_) {
    if (!s.master.is_same(s.parameter.value)) s.parameter.value.copy_(s.master);
    if (s.average.defined()) s.average.lerp_(s.master, 1.0 - train_.ema);
  }
  forget();
}

void Optimizer::forget() {
  for (OptimizerSlot& s : slots_) {
    s.gradient.reset();
    s.parameter.value.mutable_grad().reset();
  }
  if (gpu_) gpu_->forget();
}

std::string Optimizer::first_bad_gradient() const {
  // Backward runs from the end of the network: the last parameter in order met the bad value first.
  for (auto s = slots_.rbegin(); s != slots_.rend(); ++s)
    if (s->gradient.defined() && !at::isfinite(s->gradient).all().item<bool>()) return s->parameter.name;
  return "";
}

NamedTensors Optimizer::state() const {
  NamedTensors all;
  for (const OptimizerSlot& s : slots_) {
    all.emplace_back("m." + s.parameter.name, s.m);
    all.emplace_back("v." + s.parameter.name, s.v);
    if (!s.master.is_same(s.parameter.value)) all.emplace_back("master." + s.parameter.name, s.master);
  }
  return all;
}

NamedTensors Optimizer::average() const {
  NamedTensors all;
  for (const OptimizerSlot& s : slots_)
    if (s.average.defined()) all.emplace_back(s.parameter.name, s.average);
  if (!all.empty())
    for (const Parameter& p : states_) all.emplace_back(p.name, p.value);
  return all;
}

void Optimizer::adopt_weights() {
  const at::NoGradGuard no_grad;
  for (OptimizerSlot& s : slots_) {
    if (!s.master.is_same(s.parameter.value)) s.master.copy_(s.parameter.value);
    if (s.average.defined()) s.average.copy_(s.master);
  }
}

int64_t Optimizer::bytes() const {
  int64_t n = 0;
  for (const auto& [name, t] : state()) n += static_cast<int64_t>(t.nbytes());
  return n;
}

int64_t Optimizer::average_bytes() const {
  int64_t n = 0;
  for (const auto& [name, t] : average()) n += static_cast<int64_t>(t.nbytes());
  return n;
}

}  // namespace siamese
