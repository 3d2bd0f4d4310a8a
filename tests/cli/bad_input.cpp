#include "bad_input.h"

#include <memory>
#include <stdexcept>
#include <utility>

namespace siamese::test {
namespace {

struct Prepared {
  TempFolder folder;
  std::map<std::string, std::string> fingerprint;
};

void must_train(const Args& args) {
  const Outcome outcome = run_siamese(args);
  if (outcome.status != 0) throw std::runtime_error("preparing: " + shown(args) + ": " + outcome.err);
}

std::unique_ptr<Prepared> prepare() {
  auto prepared = std::make_unique<Prepared>();
  const TempFolder& d = prepared->folder;
  for (const char* part : {"recipes", "data", "checkpoints", "golden", "young-run"}) fs::create_directory(d / part);
  prepare_recipes(d / "recipes");
  prepare_data(d / "data");
  must_train(tiny_with(d / "run", {"train.ema=0.9"}));
  must_train(tiny_with(d / "tokens-run", {"data.tokens=" + d / "data/good.u16", "model.vocab_size=64"}));
  prepare_checkpoints(d / "checkpoints", d / "run/checkpoints/step-00000004");
  prepare_golden(d / "golden");
  for (const char* file : {"recipe.yaml", "metrics.jsonl"})
    fs::copy_file((d / "run/") + file, (d / "young-run/") + file);
  prepared->fingerprint = fingerprint(d.path().string());
  return prepared;
}

/// Made at the first use and kept until the program ends.
Prepared& prepared() {
  static const std::unique_ptr<Prepared> value = prepare();
  return *value;
}

std::string filled_in(std::string text, const std::string& scratch) {
  for (const auto& [mark, value] : {std::pair{"{d}", prepared_folder()}, std::pair{"{s}", scratch}}) {
    for (size_t at = 0; (at = text.find(mark, at)) != std::string::npos; at += value.size()) text.replace(at, 3, value);
  }
  return text;
}

}  // namespace

const std::string& prepared_folder() { return prepared().folder.path().native(); }

Args tiny_with(const std::string& out, const Args& set) {
  Args args = tiny_train(out, 4, 2);
  for (const std::string& s : set) args.insert(args.end(), {"--set", s});
  return args;
}

void check_refused(const BadInput& row) {
  const TempFolder scratch;
  Args args;
  for (const std::string& arg : row.args) args.push_back(filled_in(arg, scratch.path().string()));
  const Outcome outcome = run_siamese(args, {.folder = scratch.path().string()});
  SCOPED_TRACE(shown(args) + "\nstderr: " + outcome.err);
  EXPECT_FALSE(outcome.timed_out);
  EXPECT_EQ(outcome.signal, 0);
  EXPECT_EQ(outcome.status, row.status);
  EXPECT_EQ(lines(outcome.err).size(), 1U);
  EXPECT_TRUE(outcome.err.starts_with("siamese")) << "not one of the program's own messages";
  EXPECT_TRUE(outcome.err.ends_with('\n'));
  EXPECT_EQ(outcome.err.find("terminate called"), std::string::npos);
  EXPECT_LT(outcome.err.size(), 1000U) << "nobody reads that";
  for (const std::string& part : row.says) {
    const std::string wanted = filled_in(part, scratch.path().string());
    EXPECT_NE(outcome.err.find(wanted), std::string::npos) << "does not say: " << wanted;
  }
  EXPECT_EQ(fingerprint(prepared_folder()), prepared().fingerprint);
}

}  // namespace siamese::test
