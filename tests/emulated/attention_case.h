// Attention of heads of 64 (kernels/cuda/attention_*.cuh) in the emulator.
#pragma once

#include <gtest/gtest.h>

#include "attention_reference.h"
#include "kernels/cuda/attention_at_once.cuh"
#include "kernels/cuda/attention_forward.cuh"
#include "kernels/cuda/attention_of_keys.cuh"
#include "kernels/cuda/attention_of_queries.cuh"

namespace siamese::kernels {

class AttentionCase : public AttentionReference {
 public:
  AttentionCase(const AttentionSize& size, Heads heads)
      : AttentionReference(size, heads), out_(tokens_ * narrow()), g_qkv_(tokens_ * wide_) {}

  void check_forward(unsigned blocks) {
    using namespace attention;
    std::vector<float> sums(wanted_sums_.size(), NAN);
    const forward::Maps maps{boxes(qkv_, 0, s_.heads, 128), boxes(qkv_, 1, s_.kv_heads, 128),
                             boxes(qkv_, 2, s_.kv_heads, 128), boxes_of_heads(out_, 64)};
    const auto kernel = s_.causal ? forward::kernel<true> : forward::kernel<false>;
    emulator::launch(blocks, {kThreads, 1, 1}, forward::kBytes, [&] { kernel(shape(), maps, sums.data()); });
    for (size_t i = 0; i < sums.size() && !::testing::Test::HasFailure(); ++i) {
      if (std::isinf(wanted_sums_[i])) {
        EXPECT_EQ(sums[i], wanted_sums_[i]) << i;
      } else {
        EXPECT_NEAR(sums[i], wanted_sums_[i], 1e-4) << i;
      }
    }
    double error = 0, norm = 0;
    for (size_t i = 0; i < wanted_out_.size(); ++i)
      error += std::pow(out_[i] - wanted_out_[i], 2), norm += std::pow(wanted_out_[i], 2);
    EXPECT_LT(std::sqrt(error / norm), 0.006);
  }

  /// `rows` teams of `team` thread blocks, all at work. `lean`: without what gains that are alike make needless.
  void check_in_one_pass(int rows, int team, bool lean = false) {
    if (lean && heads_ == Heads::alike) forget_raw();
    run_in_one_pass(rows, team, lean);
    compare();
    if (normed_) compare_gains();
  }

  /// Lean: q and k as they were before their norms are read all the same.
  void check_reads_raw(int rows, int team) {
    forget_raw();
    run_in_one_pass(rows, team, true);
    each_row([&](size_t, size_t kind, size_t, size_t at) { EXPECT_EQ(std::isnan(g_qkv_[at]), kind < 2); });
  }

  void check_in_two_passes(unsigned blocks) {
    using namespace attention;
    const float *cos = turned_ ? cos_.data() : nullptr, *sin = turned_ ? sin_.data() : nullptr;
    const of_queries::Maps maps{boxes(qkv_, 0, s_.heads, 128), boxes(qkv_, 1, s_.kv_heads, 128),
                                boxes(qkv_, 2, s_.kv_heads, 128), boxes_of_heads(g_, 128),
                                boxes(g_qkv_, 0, s_.heads, 64)};
    const auto of_k = s_.causal ? of_keys::kernel<true> : of_keys::kernel<false>;
    const auto of_q = s_.causal ? of_queries::kernel<true> : of_queries::kernel<false>;
    const ColumnMaps columns = column_maps();
    emulator::launch(blocks, {kThreads, 1, 1}, of_keys::kBytes,
                     [&] { of_k(shape(), columns, wanted_sums_.data(), dots_.data(), cos, sin); });
    emulator::launch(blocks, {kThreads, 1, 1}, of_queries::kBytes,
                     [&] { of_q(shape(), maps, wanted_sums_.data(), dots_.data(), cos, sin); });
    compare();
  }

 private:
  void forget_raw() { std::fill_n(raw_.p, tokens_ * 2 * narrow(), uint16_t{0x7fc0}); }
  attention::Shape shape() const {
    return {s_.batch,
            s_.heads,
            s_.kv_heads,
            s_.length,
            static_cast<int>(padded_) / 128,
            static_cast<int>(padded_),
            0.125f,
            0.125f * static_cast<float>(M_LOG2E)};
  }
  CUtensorMap map_of(const uint16_t* data, int count, size_t stride, int box_rows) const {
    return hopper::Map::make(data, s_.batch, s_.length, count * static_cast<int>(kDim), static_cast<int64_t>(stride),
                             box_rows, 64);
  }
  CUtensorMap boxes(const Packed& all, size_t kind, int count, int box_rows) const {
    return map_of(all.p + first(kind) * kDim, count, wide_, box_rows);
  }
  CUtensorMap boxes_of_heads(const Packed& all, int box_rows) const {
    return map_of(all.p, s_.heads, narrow(), box_rows);
  }
  attention::ColumnMaps column_maps() const {
    return {boxes(qkv_, 0, s_.heads, 64), boxes(qkv_, 1, s_.kv_heads, 128),  boxes(qkv_, 2, s_.kv_heads, 128),
            boxes_of_heads(g_, 64),       boxes(g_qkv_, 1, s_.kv_heads, 64), boxes(g_qkv_, 2, s_.kv_heads, 64)};
  }

  void run_in_one_pass(int rows, int team, bool lean) {
    using namespace attention;
    const ColumnMaps maps = column_maps();
    const CUtensorMap g_q = boxes(g_qkv_, 0, s_.heads, 64);
    Shape with_team = shape();
    with_team.team = team;
    AtOnce plan;
    plan.rows = rows, plan.team = team, plan.tiles = query_tiles(s_.length);
    std::vector<int> added(static_cast<size_t>(plan.counters()), 0);
    std::vector<float4> sums(static_cast<size_t>(plan.values() / 4), float4{NAN, NAN, NAN, NAN});
    std::vector<float4> angles(turned_ ? static_cast<size_t>(plan.angles() / 4) : 0);
    for (size_t i = 0; i < angles.size(); ++i)
      angles[i] = angles_of(cos_.data(), sin_.data(), s_.length, static_cast<int>(i / 256 * 16),
                            static_cast<int>(i % 32), static_cast<int>(i / 32 % 8));
    const auto grid = static_cast<unsigned>(rows * team);
    partial_.assign(normed_ ? grid * 3 * kDim : 0, NAN);
    const auto gain = [&](size_t i) { return reinterpret_cast<const bfloat*>(gain_.p) + i * kDim; };
    const HeadNorms norms{{gain(0), gain(1), gain(2)},
                          rho_.data(),
                          partial_.data(),
                          map_of(raw_.p, s_.heads, 2 * narrow(), 64),
                          map_of(raw_.p + narrow(), s_.heads, 2 * narrow(), 64)};
    const auto kernel = !normed_ ? at_once::kernel<false, false>
                        : lean   ? at_once::kernel<true, true>
                                 : at_once::kernel<true, false>;
    emulator::launch(
        grid, {at_once::kRoles, 1, 1}, at_once::bytes(plan, normed_, lean),
        [&] {
          kernel(with_team, maps, g_q, wanted_sums_.data(), dots_.data(),
                 OrderedAngles{turned_ ? angles.data() : nullptr}, reinterpret_cast<float*>(sums.data()), added.data(),
                 norms, at_once::norms_begin(plan));
        },
        grid);
  }

  void compare() const {
    double error[3] = {}, norm[3] = {};
    each_row([&](size_t, size_t kind, size_t, size_t at) {
      for (size_t i = at; i < at + kDim; ++i)
        error[kind] += std::pow(g_qkv_[i] - wanted_[i], 2), norm[kind] += std::pow(wanted_[i], 2);
    });
    for (size_t kind = 0; kind < 3; ++kind)
      EXPECT_LT(std::sqrt(error[kind] / norm[kind]), 0.006) << "gradient of "
                                                            << "qkv"[kind];
  }
  void compare_gains() const {
    for (size_t kind = 0; kind < 3; ++kind) {
      double error = 0, norm = 0;
      for (size_t i = kind * kDim; i < (kind + 1) * kDim; ++i) {
        double sum = 0;
        for (size_t b = 0; b < partial_.size(); b += 3 * kDim) sum += partial_[b + i];
        error += std::pow(sum - g_gain_[i], 2), norm += std::pow(g_gain_[i], 2);
      }
      EXPECT_LT(std::sqrt(error / norm), heads_ == Heads::normed ? 0.003 : 0.005) << "gradient of the gain of "
                                                                                  << "qkv"[kind];
    }
  }

  Packed out_, g_qkv_;
  std::vector<float> partial_;
};

}  // namespace siamese::kernels
