// What is wrong with a file: data, checkpoints, golden files; and checkpoints damaged at random.
#include <random>

#include "bad_input.h"

namespace siamese::test {
namespace {

class RefusedFile : public testing::TestWithParam<BadInput> {};

TEST_P(RefusedFile, InOneLine) { check_refused(GetParam()); }

Args with_tokens(const std::string& file, const Args& more = {}) {
  return tiny_with("{s}/run", Args{"data.tokens=" + file, "model.vocab_size=64"} + more);
}
Args with_text(const std::string& file) { return tiny_with("{s}/run", {"data.text=" + file}); }
Args eval_with(const std::string& file, const std::string& dtype) {
  return {"eval", "{d}/tokens-run", "--data", file, "--dtype", dtype};
}

const std::vector<BadInput> kData = {
    {"TextMissing", with_text("{d}/data/none.txt"), 1, {"{d}/data/none.txt", "No such file"}},
    {"TextSmall",
     with_text("{d}/data/small.txt"),
     1,
     {"{d}/data/small.txt", "40 bytes are too few", "sequence_length"}},
    {"TextEmpty", with_text("{d}/data/empty"), 1, {"{d}/data/empty", "0 bytes"}},
    {"TextNul", with_text("{d}/data/nul.txt"), 1, {"{d}/data/nul.txt", "NUL byte at offset 2000"}},
    {"TextLatin1", with_text("{d}/data/latin1.txt"), 1, {"{d}/data/latin1.txt", "0xE9 at offset 2003", "UTF-8"}},
    {"TextFolder", with_text("{d}/data"), 1, {"{d}/data", "not a regular file"}},
    {"TextDevice", with_text("/dev/zero"), 1, {"/dev/zero", "not a regular file"}},
    {"TokensMissing", with_tokens("{d}/data/none"), 1, {"{d}/data/none", "No such file"}},
    {"TokensOdd", with_tokens("{d}/data/odd.u16"), 1, {"{d}/data/odd.u16", "4001 bytes", "multiple of 2"}},
    {"TokensCut", with_tokens("{d}/data/cut.u32", {"data.token_dtype=uint32"}), 1, {"cut.u32", "multiple of 4"}},
    {"TokensSmall", with_tokens("{d}/data/small.u16"), 1, {"{d}/data/small.u16", "20 tokens are too few"}},
    {"TokensBeyond", with_tokens("{d}/data/beyond.u16"), 1, {"{d}/data/beyond.u16", "model.vocab_size 64", "id 6"}},
    {"TokensNumpy", with_tokens("{d}/data/numpy.npy"), 1, {"{d}/data/numpy.npy", "NumPy header"}},
    {"TokensEmpty", with_tokens("{d}/data/empty"), 1, {"{d}/data/empty", "0 tokens"}},
    {"TokensFolder", with_tokens("{d}/data"), 1, {"{d}/data", "not a regular file"}},
    {"TokensEos",
     with_tokens("{d}/data/good.u16", {"data.eos_id=64"}),
     1,
     {"data.eos_id (64)", "model.vocab_size (64)"}},
    {"TokensTwice",
     with_tokens("{d}/data/good.u16", {"data.validation_tokens={d}/data/good.u16"}),
     1,
     {"{d}/data/good.u16", "data.validation_tokens"}},
    {"NoVocabulary", tiny_with("{s}/run", {"data.tokens={d}/data/good.u16"}), 1, {"model.vocab_size must be set"}},
    {"CompareText",
     {"compare", "lm-pico", "--schemes", "pre", "--out", "{s}/c", "--set", "data.text={d}/data/small.txt"},
     1,
     {"{d}/data/small.txt"}},
    {"EvalMissing", eval_with("{d}/data/none", "uint16"), 1, {"{d}/data/none"}},
    {"EvalBeyond", eval_with("{d}/data/beyond.u16", "uint16"), 1, {"beyond.u16", "id 64 at token 64"}},
    {"EvalOdd", eval_with("{d}/data/odd.u16", "uint16"), 1, {"odd.u16", "multiple of 2"}},
    {"EvalText", eval_with("{d}/data/good.txt", "text"), 1, {"good.txt", "token ids"}},
    {"EvalEmpty", {"eval", "{d}/run", "--data", "{d}/data/empty"}, 1, {"{d}/data/empty", "0 bytes"}},
    {"EvalNul", {"eval", "{d}/run", "--data", "{d}/data/nul.txt"}, 1, {"nul.txt", "NUL byte"}},
};
INSTANTIATE_TEST_SUITE_P(Data, RefusedFile, testing::ValuesIn(kData), row_name);

const std::vector<BadInput> kCheckpoints = {
    {"Missing", {"generate", "{d}/nowhere"}, 1, {"{d}/nowhere", "no such"}},
    {"File", {"generate", "{d}/data/good.txt"}, 1, {"{d}/data/good.txt", "folder"}},
    {"YoungRun", {"eval", "{d}/young-run"}, 1, {"{d}/young-run", "no checkpoint"}},
    {"NoManifest", {"eval", "{d}/checkpoints/no_manifest"}, 1, {"no_manifest", "manifest.json"}},
    {"EmptyManifest", {"info", "{d}/checkpoints/empty_manifest"}, 1, {"empty_manifest/manifest.json"}},
    {"CutManifest", {"info", "{d}/checkpoints/cut_manifest"}, 1, {"cut_manifest/manifest.json", "cut or altered"}},
    {"AlteredManifest", {"eval", "{d}/checkpoints/altered_manifest"}, 1, {"altered_manifest/manifest.json", "altered"}},
    {"ListManifest", {"eval", "{d}/checkpoints/list_manifest"}, 1, {"list_manifest/manifest.json"}},
    {"BinaryManifest", {"eval", "{d}/checkpoints/binary_manifest"}, 1, {"binary_manifest/manifest.json"}},
    {"UnhashedManifest", {"eval", "{d}/checkpoints/unhashed_manifest"}, 1, {"unhashed_manifest/manifest.json"}},
    {"NoWeights", {"generate", "{d}/checkpoints/no_weights"}, 1, {"no_weights/model.safetensors", "No such file"}},
    {"Swapped", {"generate", "{d}/checkpoints/swapped"}, 1, {"swapped/model.safetensors"}},
    {"NoAverage", {"generate", "{d}/tokens-run", "--ids", "1", "--ema"}, 1, {"{d}/tokens-run", "ema.safetensors"}},
    {"FromMissing", tiny_with("{s}/run", {}) + Args{"--resume", "--from", "{d}/nowhere"}, 1, {"{d}/nowhere"}},
    {"InitMissing", tiny_with("{s}/run", {}) + Args{"--init-from", "{d}/nowhere"}, 1, {"{d}/nowhere"}},
    {"InitOther",
     tiny_with("{s}/run", {}) + Args{"--init-from", "{d}/tokens-run"},
     1,
     {"wte.weight", "[64, 16]", "[256, 16]"}},
};
INSTANTIATE_TEST_SUITE_P(Checkpoints, RefusedFile, testing::ValuesIn(kCheckpoints), row_name);

BadInput golden(const char* name, const char* file, std::vector<std::string> says) {
  const std::string path = std::string("{d}/golden/") + file;
  says.push_back(path);
  return {name, {"parity", path}, 1, says};
}

const std::vector<BadInput> kGolden = {
    golden("Missing", "none", {"No such file"}),
    golden("Empty", "empty", {"0 bytes"}),
    golden("Short", "short", {"5 bytes"}),
    golden("Cut", "cut", {"past the end"}),
    golden("CutHeader", "cut_header", {"only 92 bytes follow"}),
    golden("HugeHeader", "huge_header", {"header length 9187201950435737471"}),
    golden("LongHeader", "long_header", {"header length 67108864"}),
    golden("BrokenJson", "broken_json", {"not valid JSON"}),
    golden("NoMetadata", "no_metadata", {"metadata"}),
    golden("NoConfig", "no_config", {"'config'"}),
    golden("BrokenConfig", "broken_config", {"'config'"}),
    golden("UnknownModel", "unknown_model", {"'perceiver'"}),
    golden("UnknownScheme", "unknown_scheme", {"'sidewards'"}),
    golden("WrongShape", "wrong_shape", {"param.transformer.blocks.0.ff_proj.weight", "[96, 32]", "[64, 32]"}),
    golden("NoHeads", "no_heads", {"n_heads"}),
    golden("Endless", "endless", {"n_layers"}),
    golden("IdBeyond", "id_beyond", {"input.ids", "0 to 63"}),
    golden("FlatIds", "flat_ids", {"input.ids"}),
    golden("NoOutput", "no_output", {"output.logits"}),
};
INSTANTIATE_TEST_SUITE_P(Golden, RefusedFile, testing::ValuesIn(kGolden), row_name);

/// One bad file does not keep the others from being looked at, and the status says that one was bad.
TEST(Parity, GoesOnAfterABadFile) {
  const std::string good = SIAMESE_SOURCE_DIR "/tests/golden/pre.safetensors";
  const Outcome outcome = run_siamese({"parity", prepared_folder() + "/golden/flat_ids", good});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(lines(outcome.err).size(), 1U) << outcome.err;
  EXPECT_NE(outcome.out.find("ok"), std::string::npos) << outcome.out;
}

/// Wherever a checkpoint is cut or a bit of it flips, it is refused by name and the one before it is offered.
TEST(Damage, IsRefusedWhereverItIs) {
  std::mt19937 random(20240607);
  const std::string run = prepared_folder() + "/run";
  const std::string newest = "checkpoints/step-00000004/", older = "checkpoints/step-00000002";
  const std::vector<Args> commands = {{"eval"}, {"generate"}, {"info"}};
  size_t turn = 0;
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "ema.safetensors", "manifest.json"}) {
    const std::string whole = read(run + "/" + newest + name);
    for (int i = 0; i < 6; ++i) {
      const TempFolder copy;
      fs::copy(run, copy / "run", fs::copy_options::recursive);
      const size_t at = random() % whole.size();
      std::string damaged = i % 2 == 0 ? whole.substr(0, at) : whole;
      if (i % 2 == 1) damaged[at] = static_cast<char>(damaged[at] ^ (1 << random() % 8));
      write((copy / "run/") + newest + name, damaged);
      const auto before = fingerprint(copy.path().string());
      const Outcome outcome = run_siamese(commands[turn++ % commands.size()] + Args{copy / "run"});
      SCOPED_TRACE(std::string(name) + (i % 2 == 0 ? " cut at " : " flipped at ") + std::to_string(at) + "\n" +
                   outcome.err);
      EXPECT_EQ(outcome.status, 1);
      EXPECT_EQ(lines(outcome.err).size(), 1U);
      EXPECT_NE(outcome.err.find(newest + name), std::string::npos);
      EXPECT_NE(outcome.err.find("is whole: " + (copy / "run/") + older), std::string::npos);
      EXPECT_EQ(fingerprint(copy.path().string()), before);
    }
  }
}

}  // namespace
}  // namespace siamese::test
