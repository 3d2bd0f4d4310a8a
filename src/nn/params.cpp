#include "nn/params.h"

#include "ops/random.h"
#include "util/error.h"
#include "util/philox.h"
#include "util/text.h"

namespace siamese {
namespace {

uint32_t name_hash(const std::string& name) {  // FNV-1a
  uint32_t h = 2166136261U;
  for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * 16777619U;
  return h;
}

void fill(const Parameter& p, int64_t seed) {
  at::Tensor t = p.value;
  switch (p.init.kind) {
    case InitSpec::constant:
      t.fill_(p.init.value);
      break;
    case InitSpec::diagonal:
      t.fill_(p.init.cutoff);
      t.fill_diagonal_(p.init.value);
      break;
    case InitSpec::one_hot:
      t.zero_();
      t[static_cast<int64_t>(p.init.value)].fill_(1.0);
      break;
    case InitSpec::normal:
    case InitSpec::uniform: {
      const Draw key{seed, 0, kInitSite ^ name_hash(p.name), 0};
      at::Tensor draw;
      if (p.init.kind == InitSpec::uniform) {
        draw = (2 * uniform(t.sizes(), t.device(), key) - 1) * p.init.value;
      } else {
        draw = at::empty(t.sizes(), t.options().dtype(t.scalar_type() == at::kDouble ? at::kDouble : at::kFloat));
        truncated_normal_(draw, p.init.value, p.init.cutoff, key);
      }
      if (p.init.split >= 0 && p.init.split < t.size(0)) draw.slice(0, p.init.split).mul_(p.init.split_scale);
      t.copy_(draw);
      break;
    }
  }
}

}  // namespace

at::Tensor Params::add(const std::string& name, at::IntArrayRef shape, ParamKind kind, const InitSpec& init) {
  return add(name, shape, kind, init, options_);
}

at::Tensor Params::add_exact(const std::string& name, at::IntArrayRef shape, ParamKind kind, const InitSpec& init) {
  return add(name, shape, kind, init, options_.dtype(dtype() == at::kDouble ? at::kDouble : at::kFloat));
}

at::Tensor Params::add(const std::string& name, at::IntArrayRef shape, ParamKind kind, const InitSpec& init,
                       const at::TensorOptions& options) {
  if (has(name)) fail("parameter '{}' exists twice", name);
  at::Tensor value = at::empty(shape, options);
  value.set_requires_grad(kind != ParamKind::state);
  all_.push_back({name, value, kind, init});
  return value;
}

void Params::initialise(int64_t seed) {
  const at::NoGradGuard no_grad;
  for (const Parameter& p : all_) fill(p, seed);
}

const Parameter& Params::at(const std::string& name) const {
  std::vector<std::string> names;
  for (const Parameter& p : all_) {
    if (p.name == name) return p;
    names.push_back(p.name);
  }
  const std::string near = nearest(name, names);
  fail("the model has no parameter '{}'{}", name, near.empty() ? "" : "; the nearest is '" + near + "'");
}

bool Params::has(const std::string& name) const {
  for (const Parameter& p : all_)
    if (p.name == name) return true;
  return false;
}

std::vector<at::Tensor> Params::with_prefix(const std::string& prefix) const {
  std::vector<at::Tensor> result;
  for (const Parameter& p : all_)
    if (p.name.starts_with(prefix)) result.push_back(p.value);
  return result;
}

int64_t Params::count() const {
  int64_t n = 0;
  for (const Parameter& p : all_)
    if (p.kind != ParamKind::state) n += p.value.numel();
  return n;
}

}  // namespace siamese
