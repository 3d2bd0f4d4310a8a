// What a user mistypes: recipes, overrides, flags, prompts and folders.
#include "bad_input.h"

namespace siamese::test {
namespace {

class Refused : public testing::TestWithParam<BadInput> {};

TEST_P(Refused, InOneLine) {
  const bool about_cuda = GetParam().name == "CudaWithoutDriver";
  if (about_cuda && run_siamese({"--version"}).out.find("CUDA none") == std::string::npos) GTEST_SKIP() << "has a GPU";
  check_refused(GetParam());
}

const std::vector<BadInput> kRecipes = {
    {"Missing", {"recipe", "{d}/none.yaml"}, 1, {"{d}/none.yaml", "No such file"}},
    {"NoSuchBundled", {"train", "lm-tinny"}, 1, {"'lm-tinny'", "did you mean 'lm-tiny'"}},
    {"Folder", {"recipe", "{d}/recipes"}, 1, {"{d}/recipes", "directory"}},
    {"Device", {"recipe", "/dev/zero"}, 1, {"/dev/zero", "1.0 MiB"}},
    {"OpenBracket", {"recipe", "{d}/recipes/open_bracket.yaml"}, 1, {"open_bracket.yaml:", "bracket"}},
    {"Prose", {"train", "{d}/recipes/prose.yaml"}, 1, {"prose.yaml:1", "key: value"}},
    {"UnknownKey", {"recipe", "{d}/recipes/unknown_key.yaml"}, 1, {"unknown_key.yaml:2", "'train.wibble_wobble'"}},
    {"Misspelt", {"recipe", "{d}/recipes/misspelt.yaml"}, 1, {"misspelt.yaml:2", "did you mean 'model.n_layers'"}},
    {"WrongType", {"recipe", "{d}/recipes/wrong_type.yaml"}, 1, {"wrong_type.yaml:2", "train.steps", "'many'"}},
    {"OutOfRange", {"recipe", "{d}/recipes/negative.yaml"}, 1, {"negative.yaml:2", "train.lr", "'-1'", "above 0"}},
    {"Heads", {"info", "{d}/recipes/heads.yaml"}, 1, {"heads.yaml:", "model.d_model (30)", "model.n_heads (4)"}},
    {"TextAndTokens", {"recipe", "{d}/recipes/both.yaml"}, 1, {"both.yaml:", "data.text", "data.tokens"}},
    {"Duplicate", {"recipe", "{d}/recipes/duplicate.yaml"}, 1, {"duplicate.yaml:3", "'train.lr'", "line 2"}},
    {"Anchor", {"recipe", "{d}/recipes/anchor.yaml"}, 1, {"anchor.yaml:1", "anchors"}},
    {"Section", {"recipe", "{d}/recipes/section.yaml"}, 1, {"section.yaml:1", "'train' is a section"}},
    {"TwoDocuments", {"recipe", "{d}/recipes/two_documents.yaml"}, 1, {"two_documents.yaml:", "second YAML"}},
    {"Scheme", {"recipe", "{d}/recipes/scheme.yaml"}, 1, {"scheme.yaml:2", "'siamesse'", "did you mean 'siamese'"}},
    {"OtherOwner", {"recipe", "{d}/recipes/owner.yaml"}, 1, {"owner.yaml:3", "model.streams", "model.scheme is pre"}},
    {"Name", {"recipe", "{d}/recipes/name.yaml"}, 1, {"name.yaml:1", "'a/b'"}},
    {"Circle", {"bench", "{d}/recipes/circle_a.yaml"}, 1, {"circle", "circle_a.yaml -> ", "circle_b.yaml"}},
    {"Orphan", {"recipe", "{d}/recipes/orphan.yaml"}, 1, {"orphan.yaml:1", "'nowhere'", "bundled recipes"}},
    {"Tabs", {"recipe", "{d}/recipes/tabs.yaml"}, 1, {"tabs.yaml:2"}},
    {"Deep", {"recipe", "{d}/recipes/deep.yaml"}, 1, {"deep.yaml:1", "nested too deeply"}},
    {"Large", {"recipe", "{d}/recipes/large.yaml"}, 1, {"large.yaml", "1.0 MiB"}},
    {"Binary", {"recipe", "{d}/recipes/binary.yaml"}, 1, {"binary.yaml:1", "not UTF-8"}},
    {"Utf16", {"recipe", "{d}/recipes/utf16.yaml"}, 1, {"utf16.yaml:1", "not UTF-8"}},
    {"SetNoValue", {"recipe", "lm-pico", "--set", "train.lr"}, 1, {"--set train.lr", "key=value"}},
    {"SetEmpty", {"recipe", "lm-pico", "--set", "train.lr="}, 1, {"--set train.lr=", "a number"}},
    {"SetNan", {"recipe", "lm-pico", "--set", "train.lr=nan"}, 1, {"train.lr", "a number", "'nan'"}},
    {"SetSection", {"recipe", "lm-pico", "--set", "train=3"}, 1, {"--set train=3", "section"}},
    {"SetExtends", {"recipe", "lm-pico", "--set", "extends=lm-tiny"}, 1, {"--set extends=lm-tiny"}},
    {"SetUnknown", {"train", "lm-pico", "--set", "train.learning_rate=1"}, 1, {"did you mean 'train.lr'"}},
    {"SetBatch", {"recipe", "lm-pico", "--set", "train.micro_batch_size=3"}, 1, {"train.batch_size (8)", "(3)"}},
    {"SetHugeNumber", {"recipe", "lm-pico", "--set", "train.steps=99999999999999999999"}, 1, {"train.steps"}},
    {"SetNewline", {"recipe", "lm-pico", "--set", "na\nme=x"}, 1, {"na\\x0ame"}},
};
INSTANTIATE_TEST_SUITE_P(Recipes, Refused, testing::ValuesIn(kRecipes), row_name);

const std::vector<BadInput> kFlags = {
    {"NoCommand", {}, 2, {"subcommand is required"}},
    {"UnknownCommand", {"trian", "lm-pico"}, 2, {"'trian'", "did you mean 'train'"}},
    {"UnknownFlag", {"train", "lm-pico", "--speed", "9"}, 2, {"--speed"}},
    {"TooMany", {"train", "lm-pico", "lm-tiny"}, 2, {"lm-tiny"}},
    {"NoRecipe", {"train"}, 2, {"a recipe is needed"}},
    {"NoRecipeToPrint", {"recipe"}, 2, {"a recipe or --keys"}},
    {"NoCheckpoint", {"generate"}, 2, {"checkpoint is required"}},
    {"NoGolden", {"parity"}, 2, {"files is required"}},
    {"NoValue", {"train", "lm-pico", "--out"}, 2, {"--out"}},
    {"NoSetValue", {"train", "lm-pico", "--set"}, 2, {"--set"}},
    {"NoThreads", {"train", "lm-pico", "--threads", "0"}, 2, {"--threads", "0"}},
    {"WordThreads", {"bench", "lm-pico", "--threads", "two"}, 2, {"--threads", "two"}},
    {"BenchOfNothing", {"bench"}, 2, {"workload", "--ops"}},
    {"BenchOfOneTwice", {"bench", "lm-pico", "--schemes", "pre,pre"}, 1, {"--schemes pre,pre", "'pre'", "twice"}},
    {"BenchOfDocuments",
     {"bench", "lm-pico", "--set", "data.document_masking=true"},
     1,
     {"lm-pico", "data.document_masking", "false"}},
    {"BenchRecomputesOnTheCpu",
     {"bench", "lm-pico", "--set", "train.recompute=norms", "--device", "cpu"},
     1,
     {"train.recompute", "CPU"}},
    {"BenchGraphOnTheCpu",
     {"bench", "lm-pico", "--set", "train.graph=on", "--device", "cpu"},
     1,
     {"train.graph", "cpu"}},
    {"BenchOfASchemeSet", {"bench", "lm-pico", "--set", "model.scheme=post"}, 2, {"model.scheme=post", "--schemes"}},
    {"ResumeOfNothing", {"train", "--resume", "--out", "{d}/nothing"}, 2, {"--resume", "{d}/nothing", "no run"}},
    {"BenchRestOnTheCpu", {"bench", "lm-pico", "--rest", "1", "--device", "cpu"}, 2, {"--rest", "GPU"}},
    {"BenchProfileOnTheCpu", {"bench", "lm-pico", "--profile", "--device", "cpu"}, 2, {"--profile", "GPU"}},
    {"BenchOpsOfSteps", {"bench", "--ops", "--steps", "3"}, 2, {"--steps", "--ops"}},
    {"OpsOnTheCpu", {"bench", "--ops", "--device", "cpu"}, 1, {"--ops", "GPU", "ops_bench"}},
    {"UnknownDevice", {"train", "lm-pico", "--device", "gpu"}, 2, {"--device", "gpu", "cuda"}},
    {"CudaWithoutDriver", {"train", "lm-pico", "--device", "cuda"}, 1, {"--device cuda", "driver"}},
    {"ResumeAndOverwrite", {"train", "lm-pico", "--resume", "--overwrite"}, 2, {"--resume", "--overwrite"}},
    {"FromAlone", {"train", "lm-pico", "--from", "{d}/run"}, 2, {"--from {d}/run", "--resume"}},
    {"InitAndResume", {"train", "lm-pico", "--init-from", "{d}/run", "--resume"}, 2, {"--init-from {d}/run"}},
    {"Cold", {"generate", "{d}/run", "--temperature", "-1"}, 2, {"--temperature", "-1"}},
    {"NanTemperature", {"generate", "{d}/run", "--temperature", "nan"}, 2, {"--temperature", "nan"}},
    {"HotTopP", {"generate", "{d}/run", "--top-p", "1.5"}, 2, {"--top-p", "1.5"}},
    {"NanTopP", {"generate", "{d}/run", "--top-p", "nan"}, 2, {"--top-p", "nan"}},
    {"NegativeTopK", {"generate", "{d}/run", "--top-k", "-1"}, 2, {"--top-k", "-1"}},
    {"NoTokens", {"generate", "{d}/run", "--tokens", "0"}, 2, {"--tokens", "0"}},
    {"WordSeed", {"generate", "{d}/run", "--seed", "x"}, 2, {"--seed", "x"}},
    {"NegativeBatches", {"eval", "{d}/run", "--batches", "-1"}, 2, {"--batches", "-1"}},
    {"UnknownDtype", {"eval", "{d}/run", "--dtype", "uint64"}, 2, {"--dtype", "uint64"}},
    {"NoScheme", {"compare", "lm-pico", "--schemes", ","}, 1, {"--schemes", "','"}},
    {"SchemeTwice", {"compare", "lm-pico", "--schemes", "pre,pre"}, 1, {"--schemes pre,pre", "'pre'"}},
    {"UnknownScheme", {"compare", "lm-pico", "--schemes", "pre,prep"}, 1, {"model.scheme", "'prep'"}},
};
INSTANTIATE_TEST_SUITE_P(Flags, Refused, testing::ValuesIn(kFlags), row_name);

const std::vector<BadInput> kPromptsAndFolders = {
    {"TokensPrompt", {"generate", "{d}/tokens-run"}, 1, {"tokens data", "--ids 1,2,3"}},
    {"TokensText", {"generate", "{d}/tokens-run", "--prompt", "hello"}, 1, {"--ids 1,2,3"}},
    {"NoIds", {"generate", "{d}/tokens-run", "--ids", ","}, 1, {"prompt is empty"}},
    {"WordIds", {"generate", "{d}/tokens-run", "--ids", "1,two"}, 1, {"--ids 1,two", "'two'"}},
    {"FractionIds", {"generate", "{d}/tokens-run", "--ids", "1.5"}, 1, {"--ids 1.5"}},
    {"LargeId", {"generate", "{d}/tokens-run", "--ids", "3,64"}, 1, {"id 64", "vocabulary of 64"}},
    {"HugeId", {"generate", "{d}/tokens-run", "--ids", "99999999999999999999"}, 1, {"99999999999999999999"}},
    {"NegativeId", {"generate", "{d}/run", "--ids", "-1"}, 1, {"id -1", "vocabulary of 256"}},
    {"IdsAndPrompt", {"generate", "{d}/run", "--ids", "1", "--prompt", "x"}, 2, {"--ids", "--prompt"}},
    {"NewlinePath", {"generate", "{d}/no\nrun"}, 1, {"no\\x0arun"}},
    {"HoldsRun", {"train", "lm-pico", "--out", "{d}/run"}, 1, {"{d}/run", "--resume", "--overwrite"}},
    {"OutIsFile", {"train", "lm-pico", "--out", "{d}/data/good.txt"}, 1, {"{d}/data/good.txt"}},
    {"OutBelowFile", {"train", "lm-pico", "--out", "{d}/data/good.txt/x"}, 1, {"{d}/data/good.txt/x"}},
    {"OutUnwritable", {"train", "lm-pico", "--out", "/proc/siamese/run"}, 1, {"/proc/siamese/run"}},
    {"CompareUnwritable", {"compare", "lm-pico", "--schemes", "pre", "--out", "/proc/x"}, 1, {"/proc/x"}},
    {"ReportUnwritable", {"report", "{d}/run", "-o", "/proc/siamese/r.html"}, 1, {"/proc/siamese/r.html"}},
    {"ReportOntoFolder", {"report", "{d}/run", "-o", "{s}"}, 1, {"{s}"}},
    {"ReportOfNothing", {"report", "{d}/data"}, 1, {"{d}/data/metrics.jsonl"}},
    {"InfoOfNothing", {"info", "{d}/data"}, 1, {"{d}/data", "manifest.json"}},
    {"OverwriteOldWithBadData",
     {"train", "lm-pico", "--out", "{d}/run", "--overwrite", "--set", "data.text={d}/none.txt"},
     1,
     {"{d}/none.txt"}},
    {"OverwriteOldWithBadStart",
     {"train", "lm-pico", "--out", "{d}/run", "--overwrite", "--init-from", "{d}/tokens-run"},
     1,
     {"{d}/tokens-run", "transformer.wte.weight"}},
    {"ResumeOther",
     {"train", "lm-pico", "--out", "{d}/run", "--resume"},
     1,
     {"section 'model'", "d_model: 64", "d_model: 16"}},
};
INSTANTIATE_TEST_SUITE_P(PromptsAndFolders, Refused, testing::ValuesIn(kPromptsAndFolders), row_name);

}  // namespace
}  // namespace siamese::test
