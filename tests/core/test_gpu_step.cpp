// The CUDA stream step against the plain path in fp64, over forms, norms, types and odd sizes; and what is built on it.
#include <torch/csrc/autograd/autograd.h>

#include "gpu.h"
#include "models/language_model.h"
#include "near.h"
#include "op_cases.h"
#include "ops/activation.h"
#include "ops/qkv_rope.h"

namespace siamese {
namespace {

class GpuStep : public Gpu, public testing::WithParamInterface<StepForm> {
 protected:
  void compare(const StepCase& c) {
    SCOPED_TRACE(fmt::format("{} rows of {}, {}", c.rows, c.d, c.name()));
    const StepInputs s = make_inputs(c), exact = in_double(s), on_gpu = converted(s, std::nullopt, gpu_);
    ASSERT_TRUE(stream_step_fusable(on_gpu.in));
    const bool narrow = c.values == at::kBFloat16, narrow_streams = c.streams == at::kBFloat16;
    // Streams are rounded to their type before they are normed; a few columns may cancel under N_in.
    const double u = narrow ? 0x1p-8 : 0.0;
    const double noise = (narrow_streams ? 1.2e-2 : narrow ? 3e-3 : 2e-5) * (c.form.norm_in && c.d < 17 ? 300 : 1);
    const StreamStepOutput got = stream_step(on_gpu.in), want = stream_step_plain(exact.in);
    expect_near(got, want, 1.01 * u, noise);
    const auto g = step_gradients(got, on_gpu), truth = step_gradients(want, exact);
    for (size_t i = 0; i < truth.size(); ++i) {
      const at::Tensor a = g[i].defined() ? g[i] : at::zeros_like(on_gpu.leaves[i].second);
      const at::Tensor b = truth[i].defined() ? truth[i] : at::zeros_like(exact.leaves[i].second);
      // Column sums of bf16 gradients collect the rounding of every row.
      const double rows = s.leaves[i].first == "x" || s.leaves[i].first == "y" || s.leaves[i].first == "r" ? 1 : 4;
      expect_near(a, b, 1.01 * u, 3 * rows * noise, "gradient of " + s.leaves[i].first);
    }
  }
};

TEST_P(GpuStep, FusedEqualsPlain) {
  for (const auto& [rows, d] : std::vector<std::pair<int64_t, int64_t>>{
           {1, 1}, {1, 8}, {5, 12}, {33, 64}, {19, 257}, {70, 384}, {300, 1024}, {9, 2048}, {3, 5000}, {2, 16384}})
    for (const auto& [streams, values] : std::vector<std::pair<at::ScalarType, at::ScalarType>>{
             {at::kFloat, at::kFloat}, {at::kBFloat16, at::kBFloat16}, {at::kFloat, at::kBFloat16}})
      for (const auto& [kind, affine] : std::vector<std::pair<NormKind, Affine>>{{NormKind::rms, Affine::gain},
                                                                                 {NormKind::layer, Affine::gain_bias}})
        compare({GetParam(), kind, affine, streams, values, rows, d});
}

TEST_P(GpuStep, SameBitsTwice) {
  const StepInputs s = converted(
      make_inputs({GetParam(), NormKind::rms, Affine::gain, at::kBFloat16, at::kBFloat16, 400, 1024}), {}, gpu_);
  const auto a = step_gradients(stream_step(s.in), s), b = step_gradients(stream_step(s.in), s);
  for (size_t i = 0; i < a.size(); ++i)
    EXPECT_TRUE(a[i].defined() == b[i].defined() && (!a[i].defined() || at::equal(a[i], b[i]))) << s.leaves[i].first;
}

INSTANTIATE_TEST_SUITE_P(Core, GpuStep, testing::ValuesIn(step_forms()),
                         [](const auto& test) { return std::string(test.param.name); });
INSTANTIATE_TEST_SUITE_P(Extended, GpuStep, testing::ValuesIn(extended_forms()),
                         [](const auto& test) { return std::string(test.param.name); });

/// Views at odd addresses are copied before the kernels read them in pieces of 16 bytes.
TEST_F(Gpu, StepTakesUnalignedTensors) {
  StreamStepInput in;
  const at::Tensor all = random_normal({10 * 64 + 1}, 5, at::kFloat).to(gpu_);
  in.y = all.slice(0, 1).view({10, 64});
  in.norm_y = {true, NormKind::rms, 1e-5, {}, {}};
  expect_near(stream_step(in).z, stream_step_plain(in).z, 0, 1e-5, "z");
}

/// Widths of the output; those that 8 does not divide, and fp64, have no kernel.
TEST_F(Gpu, ActivationsEqualPlain) {
  for (const Activation kind : {Activation::swiglu, Activation::gelu, Activation::gelu_tanh})
    for (const auto type : {at::kFloat, at::kBFloat16, at::kDouble})
      for (const auto& [rows, width] : std::vector<std::pair<int64_t, int64_t>>{
               {1, 8}, {1, 16}, {37, 24}, {37, 48}, {500, 2816}, {500, 5632}, {3, 16384}, {1, 1}, {5, 7}, {37, 1001}}) {
        const int64_t columns = kind == Activation::swiglu ? 2 * width : width;
        const at::Tensor p = (random_normal({rows, columns}, 3) * 2).to(type).to(gpu_).set_requires_grad(true);
        const at::Tensor q = p.detach().to(at::kDouble).set_requires_grad(true);
        const at::Tensor a = activate(p, kind), b = activate_plain(q, kind);
        const double noise = type == at::kDouble ? 1e-13 : type == at::kFloat ? 1e-6 : 8e-3;
        expect_near(a, b, noise, noise, "output");
        const at::Tensor g = random_normal(a.sizes(), 4).to(gpu_);
        const auto ga = torch::autograd::grad({a}, {p}, {g.to(type)}), gb = torch::autograd::grad({b}, {q}, {g});
        expect_near(ga[0], gb[0], noise, noise, "gradient");
        const auto [again, output] = activation_backward(g.to(type), p.detach(), kind, /*want_output=*/true);
        expect_near(again, gb[0], noise, noise, "gradient again");
        expect_near(output, b, noise, noise, "output again");
      }
}

TEST_F(Gpu, QkvRopeEqualsPlain) {
  for (const auto type : {at::kFloat, at::kBFloat16})
    for (const int64_t dim : {16, 64, 128})
      for (const int normed : {0, 2, 3})
        for (const NormKind kind : {NormKind::rms, NormKind::layer}) {
          AttentionCore core{5, 2, dim, {}, {}, {}, {}, 0};
          const at::Tensor angle = at::arange(7 * dim / 2, at::kFloat).view({7, dim / 2}) * 0.37;
          core.cos = angle.cos().to(gpu_), core.sin = angle.sin().to(gpu_);
          for (int i = 0; i < normed; ++i)
            core.norm[i] = {true, kind, 1e-5, (random_normal({dim}, i) * 0.2 + 1).to(type).to(gpu_),
                            kind == NormKind::layer ? random_normal({dim}, 9 + i, type).to(gpu_) : at::Tensor()};
          const at::Tensor qkv = random_normal({3, 7, 9, dim}, 77, type).to(gpu_);
          at::Tensor out = normed > 0 ? at::empty_like(qkv) : qkv.clone();
          qkv_rope_out(out, normed > 0 ? qkv : out, core);
          AttentionCore exact = core;
          std::vector<at::Tensor> leaves{qkv.to(at::kDouble).set_requires_grad(true)};
          exact.cos = core.cos.to(at::kDouble), exact.sin = core.sin.to(at::kDouble);
          for (Norm& n : exact.norm)
            for (at::Tensor* t : {&n.gain, &n.bias})
              if (t->defined()) *t = t->to(at::kDouble).set_requires_grad(true), leaves.push_back(*t);
          const at::Tensor want = qkv_rope_plain(leaves[0], exact);
          const double noise = type == at::kFloat ? 1e-5 : 1.5e-2;
          expect_near(out, want, noise, noise, "output");
          const at::Tensor g = random_normal(qkv.sizes(), 78, type).to(gpu_);
          const auto parts = g.split_with_sizes({5, 2, 2}, 2);
          const auto got = qkv_rope_backward(parts[0], parts[1], parts[2], qkv, core);
          const auto truth = torch::autograd::grad({want}, leaves, {g.to(at::kDouble)});
          expect_near(got[0], truth[0], noise, 2 * noise, "gradient of qkv");
          size_t next = 1;
          for (size_t part = 0; part < 3; ++part)
            for (const size_t at : {part, 3 + part})
              if (got[1 + at].numel() > 0) expect_near(got[1 + at], truth[next++], 2 * noise, 4 * noise, "gain");
        }
}

/// The whole model: fused in fp32 and bf16 on the GPU against the plain path in fp64 on the CPU.
TEST_F(Gpu, EverySchemeFusedEqualsPlain) {
  for (const SchemeInfo& info : scheme_table())
    for (const bool layer : {false, true}) {
      ModelConfig config;
      config.scheme = info.name;
      config.d_model = 64, config.n_layers = 3, config.n_heads = 4, config.n_kv_heads = 2;
      config.mlp_hidden_size = 96, config.vocab_size = 56;
      config.norm = layer ? "layer" : "rms";
      config.norm_bias = layer;
      config.streams = std::string(info.name) == "mhc" ? 4 : 2;
      const at::Tensor ids = at::arange(2 * 33).view({2, 33}).remainder(51);
      struct Side {
        at::ScalarType type;
        at::Device device;
        double tolerance;
      };
      std::vector<at::Tensor> truth;
      double true_loss = 0;
      for (const Side& side :
           {Side{at::kDouble, at::kCPU, 0}, Side{at::kFloat, gpu_, 2e-4}, Side{at::kBFloat16, gpu_, 0.1}}) {
        ModelOptions options;
        options.device = side.device;
        options.dtype = options.stream_dtype = side.type;
        config.fused = side.type != at::kDouble;
        LanguageModel model(config, options);
        model.params().initialise(3);
        Forward forward;
        forward.training = true;
        const LmLoss l = model.loss(ids.to(side.device), forward, 1e-4);
        torch::autograd::backward({l.total});
        const double loss = l.total.item<double>();
        if (truth.empty()) true_loss = loss;
        EXPECT_NEAR(loss, true_loss, side.tolerance) << info.name;
        size_t i = 0;
        for (const Parameter& p : model.params().all()) {
          const at::Tensor g = p.value.grad().defined() ? p.value.grad().to(at::kCPU, at::kDouble)
                                                        : at::zeros(p.value.sizes(), at::kDouble);
          if (side.type == at::kDouble) {
            truth.push_back(g);
            continue;
          }
          const double size = truth[i].norm().item<double>(), error = (g - truth[i]).norm().item<double>();
          EXPECT_LE(error, side.tolerance * size + 1e-6 + (side.type == at::kBFloat16 ? 2e-3 : 0))
              << info.name << (layer ? " layer " : " rms ") << p.name << " size " << size;
          ++i;
        }
      }
    }
}

}  // namespace
}  // namespace siamese
