// The head's loss and the embedding on a GPU, held to the plain path in fp64: rows of every length and alignment, ids
// however they repeat, the same bits every time.
#include <cmath>

#include "gpu.h"
#include "head_cases.h"
#include "ops/cross_entropy.h"

namespace siamese {
namespace {

class GpuHead : public Gpu {
 protected:
  /// Vocabularies on either side of what a block keeps in shared memory, odd ones, those of the recipes.
  static std::vector<HeadCase> cases() {
    std::vector<HeadCase> all = head_cases();
    const std::vector<HeadCase> more = {
        {.name = "gpt2", .rows = 37, .d = 33, .vocab = 50257, .ignored = 4, .z_weight = 1e-4},
        {.name = "gpt2_padded", .rows = 300, .d = 64, .vocab = 50304, .ignored = 7, .z_weight = 1e-4},
        {.name = "olmo", .rows = 20, .d = 24, .vocab = 100352, .ignored = 6, .z_weight = 1e-4},
        {.name = "no_room", .rows = 5, .d = 16, .vocab = 300001, .ignored = 3, .z_weight = 1e-4},
    };
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
};

void expect_near(double a, double b, double tolerance) {
  const bool same = std::isnan(b) ? std::isnan(a) : std::abs(a - b) <= tolerance * std::max(1.0, std::abs(b));
  EXPECT_TRUE(same) << a << " instead of " << b;
}

TEST_F(GpuHead, LossAndGradientsAreThePlainOnes) {
  for (const HeadCase& c : cases())
    for (const auto type : {at::kFloat, at::kBFloat16})
      for (const int64_t chunk : {int64_t{1}, int64_t{3}, c.rows, int64_t{0}}) {
        if (chunk == 1 && c.rows > 100) continue;
        SCOPED_TRACE(fmt::format("{} {} by {}", c.name, c10::toString(type), chunk));
        const HeadInputs in = make_inputs(c, type, gpu_, chunk);
        const HeadResult got = run_head(in, true), want = run_head(in_double(in), false);
        const bool low = type == at::kBFloat16;
        EXPECT_EQ(got.g_weight.scalar_type(), type);
        expect_near(got.total, want.total, low ? 1e-2 : 2e-6);
        expect_near(got.ce, want.ce, low ? 1e-2 : 2e-6);
        EXPECT_LE(head_error(got.g_hidden, want.g_hidden), low ? 3e-2 : 2e-5);
        EXPECT_LE(head_error(got.g_weight, want.g_weight), low ? 3e-2 : 2e-5);
      }
}

/// The kernel by itself: the logits are given, so that bf16 leaves nothing but the rounding of what is written.
TEST_F(GpuHead, RowsOfEveryLengthAndAlignment) {
  for (const auto type : {at::kFloat, at::kBFloat16})
    for (const int64_t vocab : {2,    3,     7,     8,     9,     15,    17,    255,    256,    1031,
                                4099, 16384, 16392, 50257, 50304, 57344, 57352, 100352, 116000, 120001})
      for (const int64_t offset : {0, 1, 5}) {
        SCOPED_TRACE(fmt::format("{} {} + {}", c10::toString(type), vocab, offset));
        const int64_t rows = 5;
        const at::Tensor whole = (3 * random_normal({rows * vocab + offset}, vocab)).to(type).to(gpu_);
        at::Tensor z = whole.slice(0, offset).view({rows, vocab});
        const at::Tensor exact = z.to(at::kDouble);
        const at::Tensor targets = at::tensor({int64_t{0}, vocab - 1, vocab / 2, int64_t{-100}, vocab / 3}).to(gpu_);
        const at::Tensor count = at::full({}, 4.0f).to(gpu_);
        at::Tensor losses = at::empty({rows}, count.options()), squares = at::empty_like(losses);
        const CrossEntropyFactors factors{-100, 0.5, 0.01};
        cross_entropy_rows_(z, targets, count, losses, squares, factors, /*gradient=*/false);
        EXPECT_TRUE(at::equal(z.to(at::kDouble), exact));
        const at::Tensor loss_alone = losses.clone();
        cross_entropy_rows_(z, targets, count, losses, squares, factors, /*gradient=*/true);

        const at::Tensor lse = at::logsumexp(exact, -1), counts = targets.ne(-100).to(at::kDouble);
        const at::Tensor at_target = targets.clamp_min(0).unsqueeze(1);
        const at::Tensor loss = (lse - exact.gather(1, at_target).squeeze(1)) * counts, hit = counts * (0.5 / 4);
        EXPECT_LE(head_error(losses, loss), 2e-6);
        EXPECT_LE(head_error(loss_alone, loss), 2e-6);
        EXPECT_LE(head_error(squares, lse.square()), 2e-6);
        at::Tensor g = at::softmax(exact, -1) * (hit + 0.01 * lse).unsqueeze(1);
        g.scatter_add_(1, at_target, -hit.unsqueeze(1));
        const at::Tensor error = (z.to(at::kDouble) - g).abs() / (g.abs() + 1e-7);
        EXPECT_LE(error.max().item<double>(), type == at::kBFloat16 ? 5e-3 : 1e-4);
        EXPECT_TRUE(at::equal(whole.slice(0, 0, offset).cpu(),
                              (3 * random_normal({rows * vocab + offset}, vocab)).to(type).slice(0, 0, offset)));
      }
}

/// So many that every block has several; what is no number, and targets that do not exist.
TEST_F(GpuHead, ManyRows) {
  for (const int64_t vocab : {16392, 50304, 57344}) {
    if (under_sanitizer() && vocab > 16392) continue;
    const int64_t rows = 700;
    const at::TensorOptions in_fp32 = at::TensorOptions().device(gpu_).dtype(at::kFloat);
    at::Tensor z = (3 * random_normal({rows, vocab}, vocab)).to(at::kBFloat16).to(gpu_);
    z[5][7].fill_(std::nan("")), z[300][9].fill_(INFINITY), z[420].fill_(-INFINITY);
    z[650].fill_(-INFINITY), z[650][11].fill_(1.40625);  // all of the sum: a loss of a rounding
    z[651].fill_(3e7), z[652].fill_(-1e10);              // far from 0: fp32 has few digits left for the loss
    const at::Tensor exact = z.to(at::kDouble);
    at::Tensor targets =
        (uniform({rows}, at::kCPU, {7, vocab, kTestSite, 0}) * static_cast<double>(vocab)).to(at::kLong);
    targets[0].fill_(-100), targets[133].fill_(-1), targets[266].fill_(int64_t{1} << 40), targets[650].fill_(11);
    targets = targets.to(gpu_);
    at::Tensor losses = at::empty({rows}, in_fp32), squares = at::empty_like(losses);
    cross_entropy_rows_(z, targets, at::full({}, 600.f, in_fp32), losses, squares, {-100, 0.5, 0.01}, true);

    const at::Tensor there = targets.ge(0).logical_and(targets.lt(vocab)), lse = at::logsumexp(exact, -1);
    const at::Tensor at_target = at::where(there, targets, at::zeros_like(targets)).unsqueeze(1);
    const at::Tensor counts = targets.ne(-100), hit = counts.to(at::kDouble) * (0.5 / 600);
    at::Tensor loss = lse - exact.gather(1, at_target).squeeze(1);
    loss.masked_fill_(there.logical_not(), std::nan("")).masked_fill_(counts.logical_not(), 0);
    at::Tensor g = at::softmax(exact, -1) * (hit + 0.01 * lse).unsqueeze(1);
    g.scatter_add_(1, at_target, at::where(there, -hit, at::zeros_like(hit)).unsqueeze(1));
    for (const int64_t row : {5, 300, 420}) loss[row].fill_(std::nan("")), g[row].fill_(std::nan(""));
    // lse is rounded to fp32, after a logarithm that is off by as much.
    const at::Tensor least = at::full_like(loss, 2e-5).masked_fill_(lse.abs() > 1e6, 0) + 1.2e-7 * lse.abs();
    const at::Tensor off = (losses.to(at::kDouble) - loss).abs(), numbers = loss.isfinite();
    EXPECT_TRUE(at::equal(losses.isfinite(), numbers)) << vocab;
    EXPECT_TRUE(off.le(least + 1e-5 * loss.abs()).masked_select(numbers).all().item<bool>()) << vocab;
    EXPECT_TRUE(at::allclose(z.to(at::kDouble), g, 5e-3, 1e-9, /*equal_nan=*/true)) << vocab;
    EXPECT_LE(losses[650].item<float>(), 1.2e-7f);
    const at::Tensor rows_of_numbers = g.isfinite().all(-1);
    EXPECT_TRUE(at::allclose(squares.to(at::kDouble).masked_select(rows_of_numbers),
                             lse.square().masked_select(rows_of_numbers), 1e-5, 1e-5))
        << vocab;
  }
}

TEST_F(GpuHead, IncomingGradientIsAFactor) {
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    const HeadInputs in = make_inputs(head_cases()[2], type, gpu_, 4);
    const HeadResult one = run_head(in, true), other = run_head(in, true, -0.375);
    EXPECT_LE(head_error(other.g_hidden, one.g_hidden * -0.375), 5e-3);
    EXPECT_LE(head_error(other.g_weight, one.g_weight * -0.375), 5e-3);
  }
}

TEST_F(GpuHead, WithoutGradientsTheLossIsTheSame) {
  for (const HeadCase& c : cases()) {
    const HeadInputs in = make_inputs(c, at::kBFloat16, gpu_);
    const HeadResult with = run_head(in, true);
    const at::NoGradGuard no_grad;
    const HeadLoss loss = lm_head_loss(in.hidden, in.weight, in.targets, in.options);
    expect_near(loss.total.item<double>(), with.total, 1e-6);
    expect_near(loss.ce.item<double>(), with.ce, 1e-6);
  }
}

TEST_F(GpuHead, SameBitsEveryTime) {
  for (const HeadCase& c : cases())
    for (const auto type : {at::kFloat, at::kBFloat16}) {
      if (c.ignored == 1) continue;  // NaN is not equal to itself
      const HeadInputs in = make_inputs(c, type, gpu_, std::max<int64_t>(1, c.rows / 3));
      const HeadResult a = run_head(in, true), b = run_head(in, true);
      EXPECT_EQ(a.total, b.total) << c.name;
      EXPECT_TRUE(at::equal(a.g_hidden, b.g_hidden) && at::equal(a.g_weight, b.g_weight)) << c.name;
    }
}

// No host looks at the targets there: a bad one must show in the loss.
TEST_F(GpuHead, ATargetOutOfRangeMakesTheLossNan) {
  const HeadInputs in = make_inputs(head_cases()[2], at::kFloat, gpu_);
  for (const int64_t bad : {int64_t{33}, int64_t{-1}, int64_t{1} << 40}) {
    at::Tensor targets = in.targets.clone();
    targets[3].fill_(bad);
    EXPECT_TRUE(std::isnan(lm_head_loss(in.hidden, in.weight, targets, in.options).total.item<double>())) << bad;
  }
}

class GpuEmbedding : public Gpu {};

TEST_F(GpuEmbedding, GradientIsTheSumOverTheTokensWithTheSameBitsEveryTime) {
  std::vector<EmbeddingCase> cases = embedding_cases();
  for (const EmbeddingCase& c : {EmbeddingCase{"bytes_long", 32768, 256, 257, 200},
                                 {"words_long", 20000, 1024, 50304, 50304},
                                 {"equal_long", 32768, 64, 3, 1},
                                 {"wide", 200, 2056, 100, 30}})
    cases.push_back(c);
  for (const EmbeddingCase& c : cases)
    for (const auto type : {at::kFloat, at::kBFloat16}) {
      SCOPED_TRACE(fmt::format("{} {}", c.name, c10::toString(type)));
      const at::Tensor ids = embedding_ids(c).to(gpu_);
      const at::Tensor w = random_normal({c.vocab, c.d}, 1, type).to(gpu_).set_requires_grad(true);
      const at::Tensor g = random_normal({c.tokens, c.d}, 2, type).to(gpu_);
      const at::Tensor e = embed_tokens(w, ids);
      EXPECT_TRUE(at::equal(e, w.index_select(0, ids)));
      const auto gradient = [&] { return torch::autograd::grad({embed_tokens(w, ids)}, {w}, {g})[0]; };
      const at::Tensor got = gradient();
      const at::Tensor want = at::zeros({c.vocab, c.d}, at::kDouble).index_add(0, ids.cpu(), g.cpu().to(at::kDouble));
      EXPECT_EQ(got.scalar_type(), type);
      EXPECT_LE(head_error(got, want), type == at::kBFloat16 ? 4e-3 : 2e-6);
      EXPECT_TRUE(at::equal(got, gradient()));
    }
}

}  // namespace
}  // namespace siamese
