// The fused stream step against its plain path: values, gradients, NaN, threads, layouts, messages.
#include "gradcheck.h"
#include "near.h"
#include "op_cases.h"
#include "ops/step_call.h"

namespace siamese {
namespace {

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (a.defined() != b.defined()) return false;
  return !a.defined() || (a.scalar_type() == b.scalar_type() && at::equal(a, b));
}

/// Rows below, at and above the 16 chunks of the column sums; widths around the vector lengths.
const std::vector<std::pair<int64_t, int64_t>> kSizes = {{1, 1},   {5, 1},    {7, 3},   {16, 17},
                                                         {33, 64}, {19, 257}, {3, 2048}};

std::vector<StepCase> cases(const std::vector<std::pair<at::ScalarType, at::ScalarType>>& types) {
  std::vector<StepCase> all;
  const std::vector<std::pair<NormKind, Affine>> norms = {{NormKind::rms, Affine::none},
                                                          {NormKind::rms, Affine::gain},
                                                          {NormKind::layer, Affine::none},
                                                          {NormKind::layer, Affine::gain_bias}};
  for (const StepForm& form : step_forms())
    for (const auto& [kind, affine] : norms)
      for (const auto& [streams, values] : types) all.push_back({form, kind, affine, streams, values, 1, 1});
  return all;
}
std::string case_name(const testing::TestParamInfo<StepCase>& test) { return test.param.name(); }

class StreamStepCase : public testing::TestWithParam<StepCase> {
  const OneThread one_thread_;
};
INSTANTIATE_TEST_SUITE_P(All, StreamStepCase,
                         testing::ValuesIn(cases({{at::kDouble, at::kDouble},
                                                  {at::kFloat, at::kFloat},
                                                  {at::kBFloat16, at::kBFloat16},
                                                  {at::kFloat, at::kBFloat16}})),
                         case_name);

void compare_gradients(const StepCase& c, const StepInputs& s, bool use_z, bool use_streams, double u, double noise) {
  SCOPED_TRACE(fmt::format("gradients of z {}, of the streams {}", use_z, use_streams));
  const StepInputs exact = in_double(s);
  const auto fused = step_gradients(stream_step(s.in), s, use_z, use_streams);
  const auto truth = step_gradients(stream_step_plain(exact.in), exact, use_z, use_streams);
  // A stream that passes through has two gradients, which autograd adds; a stream that is z has its gradient converted
  // to the type of the values: roundings outside the operator.
  const bool added = use_streams && (c.z_is_x() || (!c.form.r && use_z));
  for (size_t i = 0; i < truth.size(); ++i) {
    const auto& [name, leaf] = s.leaves[i];
    ASSERT_EQ(name, exact.leaves[i].first);
    const at::Tensor got = fused[i].defined() ? fused[i] : at::zeros_like(leaf);
    const at::Tensor want = truth[i].defined() ? truth[i] : at::zeros_like(exact.leaves[i].second);
    EXPECT_EQ(got.scalar_type(), leaf.scalar_type()) << name;
    expect_near(got, want, 1.01 * u, 3 * noise + (added ? 4 * u : 0.0), "gradient of " + name);
  }
}

TEST_P(StreamStepCase, FusedEqualsPlain) {
  StepCase c = GetParam();
  const bool narrow = c.values == at::kBFloat16;
  for (const auto& [rows, d] : kSizes) {
    SCOPED_TRACE(fmt::format("{} rows of {}", rows, d));
    c.rows = rows, c.d = d;
    const StepInputs s = make_inputs(c);
    ASSERT_TRUE(stream_step_fusable(s.in));
    const StreamStepOutput fused = stream_step(s.in), truth = stream_step_plain(in_double(s).in);
    EXPECT_EQ(fused.z.scalar_type(), c.values);
    for (const at::Tensor& t : {fused.x, fused.y}) EXPECT_TRUE(!t.defined() || t.scalar_type() == c.streams);
    // u: the relative error of rounding to the type of the values; the fused path rounds once, so in bf16 it is held
    // to fp64 element by element. In a few columns u = X + N_y(y) may cancel, and N_in blows the rest up by
    // 1/sqrt(eps).
    const bool cancels = c.form.norm_in && d < 17;
    const double u = narrow ? 0x1p-8 : 0.0, noise = (c.values == at::kDouble ? 1e-12 : 1e-5) * (cancels ? 300 : 1);
    expect_near(fused, truth, 1.01 * u, noise);
    // The plain path in bf16 rounds every intermediate: two units in the last place of the largest value.
    if (narrow && !cancels) expect_near(fused, stream_step_plain(s.in), 0.0, 2 * 0x1p-7);
    compare_gradients(c, s, true, true, u, noise);
    if (d != 17) continue;
    compare_gradients(c, s, true, false, u, noise);
    compare_gradients(c, s, false, true, u, noise);
  }
}

// Norms on r, gates, adaLN, DropPath: the operator has them on the CPU as well, by plain operations.
TEST(StreamStep, OperatorHasEveryFormOnTheCpu) {
  for (const StepForm& form : extended_forms())
    for (const NormKind kind : {NormKind::rms, NormKind::layer})
      for (const auto& [streams, values] : {std::pair(at::kDouble, at::kDouble), std::pair(at::kFloat, at::kFloat)}) {
        const StepCase c{form, kind, kind == NormKind::rms ? Affine::gain : Affine::gain_bias, streams, values, 5, 17};
        SCOPED_TRACE(c.name());
        const StepInputs s = make_inputs(c);
        const double noise = values == at::kDouble ? 1e-12 : 1e-5;
        expect_near(stream_step(s.in), stream_step_plain(in_double(s).in), 0, noise);
        for (const auto& [use_z, use_streams] : {std::pair(true, true), std::pair(true, false), std::pair(false, true)})
          compare_gradients(c, s, use_z, use_streams, 0, noise);
      }
}

// What the backward operator returns shares memory neither with what it was handed nor with itself.
TEST(StreamStep, CpuGradientsHaveMemoryOfTheirOwn) {
  const at::NoGradGuard no_grad;
  for (const int64_t flags : {int64_t{kNormR}, int64_t{kNormX | kSkipY}}) {  // reordered, resi_dual
    StepCall call;
    const bool two = (flags & kSkipY) != 0;
    call.flags = flags, call.eps = 1e-5;
    if (two) call.t[kX] = random_normal({3, 4}, 1, at::kFloat);
    call.t[kY] = random_normal({3, 4}, 2, at::kFloat), call.t[kR] = random_normal({3, 4}, 3, at::kFloat);
    StepGradients g;
    g.z = random_normal({4, 3}, 4, at::kFloat).t(), g.y_out = random_normal({1, 4}, 5, at::kFloat).expand({3, 4});
    g.want_z = true;
    const StepBackward back = call_step_backward(call, g);
    std::vector<at::Tensor> all{g.z, g.y_out, call[kX], call[kY], call[kR]};
    for (const at::Tensor& t : back) {
      if (!t.defined() || t.numel() == 0) continue;
      EXPECT_TRUE(t.is_contiguous());
      for (const at::Tensor& other : all) EXPECT_FALSE(other.defined() && t.is_alias_of(other));
      all.push_back(t);
    }
    EXPECT_GT(all.size(), 7U);
  }
}

class StreamStepExact : public testing::TestWithParam<StepCase> {};
INSTANTIATE_TEST_SUITE_P(All, StreamStepExact, testing::ValuesIn(cases({{at::kDouble, at::kDouble}})), case_name);

TEST_P(StreamStepExact, FiniteDifferences) {
  StepCase c = GetParam();
  for (const auto& [rows, d] : {std::pair<int64_t, int64_t>{1, 3}, {5, 17}}) {
    c.rows = rows, c.d = d;
    const StepInputs s = make_inputs(c);
    for (const bool fused : {true, false}) {
      auto loss = [&] {
        const StreamStepOutput out = fused ? stream_step(s.in) : stream_step_plain(s.in);
        at::Tensor sum = (out.z * s.g_z).sum() + 0.1 * out.z.square().sum();
        if (out.x.defined()) sum = sum + (out.x * s.g_x).sum();
        if (out.y.defined()) sum = sum + (out.y * s.g_y).sum();
        return sum;
      };
      expect_gradients(loss, s.leaves, 1e-7);
    }
  }
}

class StreamStepForm : public testing::TestWithParam<StepForm> {};
INSTANTIATE_TEST_SUITE_P(All, StreamStepForm, testing::ValuesIn(step_forms()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(StreamStepForm, NanStaysInItsRow) {
  const StepCase c{GetParam(), NormKind::layer, Affine::gain_bias, at::kFloat, at::kFloat, 9, 33};
  constexpr int64_t kBad = 4;
  const StepInputs clean = make_inputs(c), bad = make_inputs(c);
  {
    const at::NoGradGuard no_grad;
    (c.form.r ? bad.in.r : c.form.y ? bad.in.y : bad.in.x)[kBad][7].fill_(std::numeric_limits<double>::quiet_NaN());
  }
  const StreamStepOutput a = stream_step(clean.in), b = stream_step(bad.in);
  const auto ga = step_gradients(a, clean), gb = step_gradients(b, bad);
  auto others = [&](const at::Tensor& t) { return at::cat({t.slice(0, 0, kBad), t.slice(0, kBad + 1)}); };
  const bool normed = c.form.norm_x || c.form.norm_y || c.form.norm_in;
  EXPECT_TRUE(same_bits(others(a.z), others(b.z)));
  EXPECT_EQ(b.z[kBad].isnan().sum().item<int64_t>(), normed ? c.d : 1);
  for (size_t i = 0; i < ga.size(); ++i) {
    const std::string& name = clean.leaves[i].first;
    EXPECT_TRUE(ga[i].dim() == 1 || same_bits(others(ga[i]), others(gb[i]))) << name;
    // A gain's gradient sums over rows: it must not hide the NaN.
    EXPECT_TRUE(!name.starts_with("gain") || gb[i].isnan().any().item<bool>()) << name;
  }
}

TEST_P(StreamStepForm, ThreadsDoNotChangeAnyBit) {
  const int before = at::get_num_threads();
  for (const auto& [rows, d] : {std::pair<int64_t, int64_t>{151, 257}, {19, 2048}})
    for (const auto type : {at::kFloat, at::kBFloat16}) {
      const StepInputs s = make_inputs({GetParam(), NormKind::rms, Affine::gain_bias, type, type, rows, d});
      at::set_num_threads(1);
      const StreamStepOutput one = stream_step(s.in);
      const auto g_one = step_gradients(one, s);
      at::set_num_threads(2);
      const StreamStepOutput two = stream_step(s.in);
      const auto g_two = step_gradients(two, s);
      EXPECT_TRUE(same_bits(one.z, two.z) && same_bits(one.x, two.x) && same_bits(one.y, two.y));
      for (size_t i = 0; i < g_one.size(); ++i) EXPECT_TRUE(same_bits(g_one[i], g_two[i])) << s.leaves[i].first;
    }
  at::set_num_threads(before);
}

TEST_P(StreamStepForm, AnyLayout) {
  const StepInputs s = make_inputs({GetParam(), NormKind::rms, Affine::gain_bias, at::kFloat, at::kFloat, 12, 17});
  StepInputs t = s;  // the same values, columns first in memory, as a [4, 3, d] batch
  auto relay = [](at::Tensor& v) {
    if (v.defined()) v = v.t().contiguous().t().view({4, 3, v.size(1)});
  };
  for (at::Tensor* v : {&t.in.x, &t.in.y, &t.in.r, &t.g_z, &t.g_x, &t.g_y}) relay(*v);
  const StreamStepOutput a = stream_step(s.in), b = stream_step(t.in);
  EXPECT_TRUE(same_bits(a.z, b.z.view_as(a.z)));
  const auto ga = step_gradients(a, s), gb = step_gradients(b, t);
  for (size_t i = 0; i < ga.size(); ++i) EXPECT_TRUE(same_bits(ga[i], gb[i])) << s.leaves[i].first;
}

TEST(StreamStep, EmptyBatch) {
  for (const StepForm& form : step_forms()) {
    const StepInputs s = make_inputs({form, NormKind::rms, Affine::gain, at::kFloat, at::kFloat, 0, 8});
    const StreamStepOutput out = stream_step(s.in);
    EXPECT_EQ(out.z.sizes(), at::IntArrayRef({0, 8})) << form.name;
    for (const at::Tensor& g : step_gradients(out, s)) EXPECT_TRUE(!g.defined() || largest(g) == 0.0) << form.name;
  }
}

TEST(StreamStep, Meta) {
  StreamStepInput in;
  in.x = at::empty({2, 3, 8}, at::TensorOptions(at::kMeta).dtype(at::kFloat));
  in.y = in.r = in.x;
  in.norm_x = in.norm_y = {true, NormKind::rms, 1e-5, {}, {}};
  EXPECT_FALSE(stream_step_fusable(in));
  const StreamStepOutput out = stream_step(in);
  EXPECT_TRUE(out.z.is_meta() && out.x.is_meta() && out.y.is_meta());
  EXPECT_EQ(out.z.sizes(), in.x.sizes());
}

/// DiT norms its inputs by LayerNorm whatever the streams are normed by: one fused call cannot hold both.
TEST(StreamStep, MixedNormsGoThePlainWay) {
  const StepForm& siamese = step_forms()[5];
  StepInputs s = make_inputs({siamese, NormKind::rms, Affine::gain, at::kFloat, at::kFloat, 4, 8});
  EXPECT_TRUE(stream_step_fusable(s.in));
  s.in.norm_in.kind = NormKind::layer;
  EXPECT_FALSE(stream_step_fusable(s.in));
  s.in.norm_in.kind = NormKind::rms;
  s.in.norm_in.eps = 1e-6;
  EXPECT_FALSE(stream_step_fusable(s.in));
}

TEST(StreamStep, RefusesWhatItCannotRead) {
  const StepCase c{step_forms()[5], NormKind::rms, Affine::gain_bias, at::kFloat, at::kFloat, 4, 8};
  auto refused = [&](const std::function<void(StreamStepInput&)>& spoil) {
    StepInputs s = make_inputs(c);
    spoil(s.in);
    try {
      stream_step(s.in);
    } catch (const c10::Error& e) {
      return std::string(e.what_without_backtrace()).starts_with("[stream_step]");
    }
    return false;
  };
  EXPECT_FALSE(refused([](StreamStepInput&) {}));
  EXPECT_TRUE(refused([](StreamStepInput& in) { in.y = in.y.slice(0, 1); }));
  EXPECT_TRUE(refused([](StreamStepInput& in) { in.y = in.y.to(at::kDouble); }));
  EXPECT_TRUE(refused([](StreamStepInput& in) { in.r = in.r.slice(1, 1); }));
  EXPECT_TRUE(refused([](StreamStepInput& in) { in.r = in.r.to(at::kBFloat16); }));
  EXPECT_TRUE(refused([](StreamStepInput& in) { in.norm_x.gain = in.norm_x.gain.slice(0, 1); }));
  EXPECT_TRUE(refused([](StreamStepInput& in) { in.norm_y.gain = in.norm_y.gain.to(at::kDouble); }));
  EXPECT_TRUE(refused([](StreamStepInput& in) { in.norm_in.bias = in.norm_in.bias.to(at::kBFloat16); }));
  EXPECT_TRUE(refused([](StreamStepInput& in) { in.c1 = in.norm_x.gain; }));
  EXPECT_TRUE(refused([](StreamStepInput& in) { in.x = in.y = at::Tensor(); }));
  EXPECT_TRUE(refused([](StreamStepInput& in) { in.dtype = at::kHalf; }));
}

}  // namespace
}  // namespace siamese
