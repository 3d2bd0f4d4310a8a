// Image models in a size that trains in a fraction of a second, and folders of pictures for them.
#pragma once

#include <gtest/gtest.h>

#include <span>

#include "images/codec.h"
#include "process.h"

namespace siamese::test {

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// Each command is refused with one line that holds the words beside it.
inline void expect_refused(std::span<const std::pair<Args, std::string>> cases) {
  for (const auto& [args, message] : cases) {
    const Outcome o = run_siamese(args);
    EXPECT_EQ(o.status, 1) << shown(args);
    EXPECT_TRUE(contains(o.err, message)) << shown(args) << ": " << o.err;
    EXPECT_EQ(lines(o.err).size(), 1U) << o.err;
  }
}

/// `family`: deit or dit. The recipe is written beside the run.
inline Args image_train(const std::string& family, const std::string& out, const Args& more = {}) {
  const std::string recipe = out + ".yaml";
  write(recipe, "model: {family: " + family +
                    ", scheme: siamese, d_model: 16, n_layers: 2, n_heads: 2, image_size: 8, patch_size: 4}\n"
                    "data: {source: shapes}\n"
                    "train: {steps: 4, batch_size: 8, warmup_steps: 1, ema: 0.9}\n"
                    "eval: {every: 0, batches: 1}\n"
                    "checkpoint: {every: 0}\n" +
                    (family == "dit" ? "diffusion: {sample_steps: 2}\n" : ""));
  Args args = {"train", recipe, "--out", out, "--threads", "1"};
  for (const std::string& s : more) args.insert(args.end(), {"--set", s});
  return args;
}

/// `count` pictures of one colour each.
inline void paint(const std::string& folder, int count, int side = 8) {
  fs::create_directories(folder);
  for (int i = 0; i < count; ++i)
    write_png(folder + "/" + std::to_string(i) + ".png", Image(side, side, 3, static_cast<uint8_t>(40 * i + count)));
}

}  // namespace siamese::test
