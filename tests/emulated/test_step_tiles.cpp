// The stream step by tiles (kernels/cuda/step_tile.h) without a GPU.
#include "step_tile_case.h"

namespace siamese::kernels {
namespace {

template <Form form, bool layer, class C, bool adaln = false>
void check(const Size& size) {
  for (const bool joined : {false, true}) {
    SCOPED_TRACE(::testing::Message() << "form " << static_cast<int>(form) << (layer ? ", layer, " : ", rms, ")
                                      << size.rows << " rows of " << size.d << ", " << size.groups << " groups, E "
                                      << C::E << ", R " << C::R << (joined ? ", joined" : ""));
    Case<form, layer, C, adaln>(size, joined).check();
  }
}

/// Groups without a tile; rings that go round; rows of one warp and of several.
template <Form form>
void check_all() {
  check<form, true, Config<4, 1, 2, true, 640, 2>>({384, 26, 2, 2});
  check<form, true, Config<4, 1, 4, false, 384, 3>>({768, 8, 3, 3});
  check<form, true, Config<8, 1, 1, false, 384, 2>>({768, 43, 3, 2});
  check<form, true, Config<4, 3, 2, false, 512, 2, true>>({384, 42, 5, 2});
  check<form, true, Config<8, 3, 1, false, 512, 2, true>>({768, 43, 5, 2});
  check<form, false, Config<4, 1, 2, true, 512, 2>>({1024, 22, 2, 2});
  check<form, false, Config<8, 1, 1, true, 640, 4>>({1024, 11, 2, 3});
  check<form, false, Config<8, 1, 1, false, 512, 2>>({2048, 9, 2, 2});
}

/// Samples of fewer tiles than groups, and of more; more samples than blocks.
template <Form form>
void check_samples() {
  check<form, true, Config<4, 1, 2, true, 384, 2>, true>({384, 18, 2, 2, 3});
  check<form, true, Config<4, 3, 2, false, 512, 2, true>, true>({384, 56, 3, 2, 4});
  check<form, true, Config<8, 1, 1, false, 384, 2>, true>({768, 35, 3, 2, 5});
  check<form, true, Config<8, 3, 1, false, 512, 2, true>, true>({768, 9, 3, 2, 3});
}

TEST(EmulatedStepTiles, Pre) { check_all<Form::pre>(); }
TEST(EmulatedStepTiles, Siamese) { check_all<Form::whole>(); }
TEST(EmulatedStepTiles, Hybrid) { check_all<Form::mixed>(); }
// LayerNorm's variance comes of sums of squares: with a mean far from 0 it loses less than bf16 did before.
TEST(EmulatedStepTiles, FarMeans) {
  for (const float mean : {12.f, -40.f}) {
    check<Form::pre, true, Config<8, 3, 1, false, 512, 2, true>>({768, 6, 2, 2, 1, mean});
    check<Form::whole, true, Config<4, 1, 2, true, 384, 2>>({384, 6, 2, 2, 1, mean});
  }
}
// Where all numbers of a row are one but for a few, the variance may not come out below 0.
TEST(EmulatedStepTiles, NearlyConstantRows) {
  for (const float deviation : {0.f, 8.f, 12.f, 16.f}) {
    using C = Config<8, 3, 1, false, 512, 2, true>;
    Case<Form::pre, true, C>({768, 24, 2, 2, 1, 60000.f, deviation, 0.f}, false).check_finite();
  }
}
TEST(EmulatedStepTiles, PreWithSamples) { check_samples<Form::pre>(); }
TEST(EmulatedStepTiles, SiameseWithSamples) { check_samples<Form::whole>(); }

}  // namespace
}  // namespace siamese::kernels
