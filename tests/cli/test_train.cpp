// `train` in a user's hands: own text, the same twice, two at once, going back, beginning anew.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>
#include <set>

#include "process.h"

namespace siamese::test {
namespace {

using nlohmann::json;

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string book(size_t size, const std::string& newline) {
  std::string text;
  for (int i = 0; text.size() < size; ++i)
    text += "Zeile " + std::to_string(i * 37) + ": Größe, naïveté, 数学 und 🙂 — “genug”." + newline;
  return text;
}

std::set<std::string> keys_of(const json& line) {
  std::set<std::string> keys;
  for (const auto& [key, value] : line.items()) keys.insert(key);
  return keys;
}

class Train : public testing::Test {
 protected:
  static Outcome must(const Args& args) {
    Outcome outcome = run_siamese(args);
    EXPECT_EQ(outcome.status, 0) << shown(args) << "\n" << outcome.err;
    return outcome;
  }
  TempFolder folder_;
};

TEST_F(Train, OwnTextWithTheFirstRecipe) {
  const std::string file = folder_ / "my own book, größer.txt";
  write(file, book(10000, "\r\n"));
  const Outcome outcome = must({"train", SIAMESE_SOURCE_DIR "/recipes/lm-tiny.yaml", "--set", "data.text=" + file,
                                "--set", "train.steps=3", "--set", "train.warmup_steps=1", "--set", "eval.batches=1",
                                "--set", "train.batch_size=2", "--out", folder_ / "run"});
  EXPECT_TRUE(contains(outcome.out, file)) << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "done    3 steps")) << outcome.out;
}

TEST_F(Train, AnyLineEndAndAnyLanguage) {
  for (const auto& [name, text] :
       {std::pair{"crlf", book(10000, "\r\n")}, std::pair{"cr", book(10000, "\r")},
        std::pair{"bom", "\xef\xbb\xbf" + book(10000, "\n")}, std::pair{"one line", book(10000, " ")}}) {
    write(folder_ / name, text);
    must(tiny_train((folder_ / name) + " run", 2, 0) + Args{"--set", "data.text=" + folder_ / name});
  }
}

TEST_F(Train, TwiceIsTheSame) {
  const Args dropout = {"--set", "model.residual_dropout=0.2", "--set", "model.attention_dropout=0.2"};
  must(tiny_train(folder_ / "a", 8, 4) + dropout);
  must(tiny_train(folder_ / "b", 8, 4) + dropout);
  must(tiny_train(folder_ / "c", 8, 4) + dropout + Args{"--set", "train.seed=2"});
  EXPECT_EQ(timeless_metrics(folder_ / "a"), timeless_metrics(folder_ / "b"));
  EXPECT_NE(timeless_metrics(folder_ / "a"), timeless_metrics(folder_ / "c"));
  EXPECT_EQ(read(folder_ / "a/checkpoints/step-00000008/model.safetensors"),
            read(folder_ / "b/checkpoints/step-00000008/model.safetensors"));
}

TEST_F(Train, MetricsHaveTheirFields) {
  must(tiny_train(folder_ / "run", 4, 2) + Args{"--set", "data.source=arithmetic", "--set", "eval.every=2"});
  int64_t steps = 0;
  int evaluations = 0;
  for (const std::string& text : lines(read(folder_ / "run/metrics.jsonl"))) {
    const json line = json::parse(text);
    if (line.contains("loss")) {
      EXPECT_EQ(keys_of(line), (std::set<std::string>{"step", "loss", "lr", "grad_norm", "tokens", "tokens_per_s"}));
      EXPECT_EQ(line["step"], ++steps);
      EXPECT_EQ(line["tokens"], steps * 8 * 16);
      EXPECT_GT(line["tokens_per_s"], 0);
    } else {
      EXPECT_EQ(keys_of(line), (std::set<std::string>{"step", "validation_loss", "perplexity", "accuracy",
                                                      "bits_per_byte", "exact_match"}));
      EXPECT_EQ(line["step"], steps) << "an evaluation stands behind its step";
      ++evaluations;
    }
    for (const auto& [key, value] : line.items()) EXPECT_TRUE(value.is_number()) << key;
  }
  EXPECT_EQ(steps, 4);
  EXPECT_EQ(evaluations, 2);
}

TEST_F(Train, OneProcessAFolder) {
  const std::string out = folder_ / "run";
  Process first(siamese_command(tiny_train(out, 1000000, 0)));
  ASSERT_TRUE(first.wait_until([&] { return !read(out + "/metrics.jsonl").empty(); })) << first.err();
  for (const char* flag : {"--resume", "--overwrite"}) {
    const Outcome second = run_siamese(tiny_train(out, 4, 2) + Args{flag});
    EXPECT_EQ(second.status, 1) << flag;
    EXPECT_TRUE(contains(second.err, out) && contains(second.err, "another process")) << second.err;
    EXPECT_EQ(lines(second.err).size(), 1U);
  }
  EXPECT_EQ(run_siamese(tiny_train(out, 4, 2)).status, 1);
  EXPECT_TRUE(first.running());
  first.send(SIGTERM);
  EXPECT_EQ(first.wait().status, 128 + SIGTERM);
  // Not a line of the first was lost to the others.
  const auto kept = lines(read(out + "/metrics.jsonl"));
  ASSERT_FALSE(kept.empty());
  EXPECT_EQ(json::parse(kept.front()).at("step"), 1);
}

TEST_F(Train, GoesBackToAnEarlierCheckpointAgainAndAgain) {
  const std::string out = folder_ / "run", early = out + "/checkpoints/step-00000004";
  must(tiny_train(out, 6, 2));
  const auto metrics = timeless_metrics(out);
  // The folder of the later one is set aside each time, never lost and never in the way.
  for (int i = 0; i < 3; ++i) {
    must(tiny_train(out, 6, 2) + Args{"--resume", "--from", early});
    EXPECT_EQ(timeless_metrics(out), metrics);
  }
  EXPECT_TRUE(fs::exists(out + "/checkpoints/step-00000006.set-aside-3/manifest.json"));
  // A copy under another name is the same checkpoint.
  fs::copy(early, folder_ / "best");
  must(tiny_train(out, 6, 2) + Args{"--resume", "--from", folder_ / "best"});
  EXPECT_EQ(timeless_metrics(out), metrics);
}

TEST_F(Train, DamagedNewestCheckpointIsPassedOverOnRequest) {
  const std::string out = folder_ / "run", newest = out + "/checkpoints/step-00000006/model.safetensors";
  must(tiny_train(out, 6, 2));
  const auto metrics = timeless_metrics(out);
  const std::string whole = read(newest);
  write(newest, whole.substr(0, whole.size() / 2));
  const Outcome refused = run_siamese(tiny_train(out, 6, 2) + Args{"--resume"});
  EXPECT_EQ(refused.status, 1);
  const std::string mark = "is whole: ";
  ASSERT_TRUE(contains(refused.err, mark)) << refused.err;
  const std::string offered = lines(refused.err.substr(refused.err.find(mark) + mark.size())).front();
  must(tiny_train(out, 6, 2) + Args{"--resume", "--from", offered});
  EXPECT_EQ(timeless_metrics(out), metrics);
  EXPECT_EQ(read(newest), whole);
}

TEST_F(Train, OverwriteBeginsAnewAlsoFromItself) {
  const std::string out = folder_ / "run";
  must(tiny_train(out, 6, 2));
  const auto metrics = timeless_metrics(out);
  write(out + "/notes.txt", "mine");
  must(tiny_train(out, 4, 2) + Args{"--overwrite", "--init-from", out});
  const auto anew = timeless_metrics(out);
  EXPECT_EQ(std::count_if(anew.begin(), anew.end(), [](const auto& l) { return contains(l, "\"loss\""); }), 4);
  EXPECT_NE(anew.front(), metrics.front()) << "it starts with the old run's weights";
  EXPECT_FALSE(fs::exists(out + "/checkpoints/step-00000006"));
  EXPECT_EQ(read(out + "/notes.txt"), "mine");
}

TEST_F(Train, ResumeOfAFinishedRunChangesNothing) {
  must(tiny_train(folder_ / "run", 4, 2));
  const auto before = fingerprint(folder_ / "run");
  must({"train", "--out", folder_ / "run", "--resume", "--threads", "1"});
  EXPECT_EQ(fingerprint(folder_ / "run"), before);
}

/// `siamese train … 2>&1 | head -1` shows one line and trains to the end.
TEST_F(Train, AClosedPipeDoesNotStopIt) {
  const std::string body = "\"$@\" 2>&1 > /dev/null | head -n 1; echo ${PIPESTATUS[0]}";
  const Args args = tiny_train(folder_ / "run", 6, 0) + Args{"--set", "eval.every=1"};
  const Outcome outcome = run(Args{"bash", "-c", body, "bash"} + siamese_command(args));
  EXPECT_TRUE(outcome.out.ends_with("\n0\n")) << outcome.out << outcome.err;
  EXPECT_TRUE(fs::exists(folder_ / "run/checkpoints/step-00000006/manifest.json"));
}

TEST_F(Train, TooLittleMemoryIsAMessage) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer needs the address space for itself";
#endif
  const Args large = {"--set", "model.vocab_size=16777216", "--set", "model.d_model=4096"};  // 256 GiB of embedding
  for (const Args& args : {tiny_train(folder_ / "run", 4, 2), Args{"bench", "lm-pico", "--schemes", "pre,siamese"}}) {
    const Outcome outcome = run_siamese(args + large + Args{"--device", "cpu"}, {.memory = 32L << 30});
    EXPECT_EQ(outcome.status, 1) << shown(args);
    std::vector<std::string> said = lines(outcome.err);
    ASSERT_GT(said.size(), 3U) << outcome.err;
    if (args[0] == "bench") {  // says it before it begins, too
      EXPECT_TRUE(said[0].starts_with("bench: lm-pico takes about ")) << outcome.err;
      said.erase(said.begin());
    }
    EXPECT_TRUE(said[0].starts_with("siamese: out of memory")) << outcome.err;
    EXPECT_EQ(said[1], "what uses memory:") << outcome.err;
    EXPECT_TRUE(contains(outcome.err, "  parameters             25")) << outcome.err;
    EXPECT_TRUE(contains(outcome.err, "what to change:")) << outcome.err;
    EXPECT_TRUE(contains(outcome.err, "  this machine has ")) << outcome.err;
    EXPECT_TRUE(contains(outcome.err, "  the model")) << outcome.err;  // nothing else would do
    EXPECT_EQ(contains(outcome.err, "fewer --schemes"), args[0] == "bench") << outcome.err;
  }
}

TEST_F(Train, DivergenceIsExplained) {
  const Outcome outcome = run_siamese(tiny_train(folder_ / "run", 6, 2) + Args{"--set", "train.lr=1e30"});
  EXPECT_EQ(outcome.status, 1);
  const std::string last = lines(outcome.err).back();
  for (const char* part : {"not finite", "train.lr", "train.warmup_steps"}) EXPECT_TRUE(contains(last, part)) << last;
}

}  // namespace
}  // namespace siamese::test
