// The golden files: every one is met, and the check itself notices what it must.
#include <algorithm>

#include "io/safetensors.h"
#include "models/parity.h"
#include "nn/tensor_io.h"
#include "tiny.h"

namespace siamese {
namespace {

namespace fs = std::filesystem;

const std::string kGolden = SIAMESE_SOURCE_DIR "/tests/golden";

std::vector<std::string> golden_files() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kGolden)) names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::string golden(const std::string& name) { return kGolden + "/" + name + ".safetensors"; }

class Parity : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Golden, Parity, testing::ValuesIn(golden_files()), [](const auto& p) { return p.param; });

TEST_P(Parity, AgreesInBothTypesAndOnBothPaths) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    for (const bool fused : {true, false}) {
      const ParityResult r = check_parity(golden(GetParam()), {at::kCPU, dtype, fused});
      EXPECT_TRUE(r.ok()) << c10::toString(dtype) << (fused ? " fused" : " plain") << ": output " << r.output_error
                          << " at " << r.worst_output << ", gradient " << r.gradient_error << " at "
                          << r.worst_gradient;
      EXPECT_LE(r.output_bound, 1e-5);
      EXPECT_LE(r.gradient_bound, 1e-4);
      EXPECT_FALSE(r.worst_gradient.empty());
    }
  }
}

// A deleted golden file would otherwise go unnoticed: the tests above are made from what lies in the folder.
TEST(ParityCheck, CoversEveryScheme) {
  const std::vector<std::string> names = golden_files();
  auto there = [&](const std::string& name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  for (const std::string& scheme : scheme_names()) {
    const bool official = there(scheme == "hybrid"           ? "lm_hybridnorm"
                                : scheme == "hybrid_star"    ? "lm_hybridnorm_star"
                                : scheme == "siamese_hybrid" ? "lm_siamese_hybrid_pre"
                                                             : scheme);
    EXPECT_TRUE(official) << scheme;
  }
}

/// Writes a golden file again with one number of one tensor or a piece of the metadata changed.
struct Altered {
  NamedTensors tensors;
  std::map<std::string, std::string> metadata;

  explicit Altered(const std::string& name) {
    const SafetensorsFile file(golden(name));
    for (const auto& [tensor, view] : file.tensors()) tensors.emplace_back(tensor, to_tensor(view));
    metadata = file.metadata();
  }
  at::Tensor at(const std::string& name) const {
    for (const auto& [tensor, value] : tensors)
      if (tensor == name) return value;
    throw Error("no tensor " + name);
  }
  /// `key` of the config becomes `value` (JSON).
  void set(const std::string& key, const std::string& value) {
    std::string& config = metadata.at("config");
    const size_t begin = config.find("\"" + key + "\":");
    if (begin == std::string::npos) {
      config.insert(1, "\"" + key + "\": " + value + ", ");
      return;
    }
    const size_t from = config.find(':', begin) + 1, to = config.find_first_of(",}", from);
    config.replace(from, to - from, " " + value);
  }
  std::string save(const TempFolder& folder) const {
    save_tensors(folder.file("altered.safetensors"), tensors, metadata);
    return folder.file("altered.safetensors");
  }
};

TEST(ParityCheck, WritingAFileAgainChangesNothing) {
  const TempFolder folder;
  EXPECT_TRUE(check_parity(Altered("pre").save(folder), {at::kCPU, at::kDouble, true}).ok());
}

TEST(ParityCheck, OneWrongNumberFails) {
  const TempFolder folder;
  for (const char* tensor : {"param.transformer.blocks.1.ff_out.weight", "param.transformer.blocks.0.att_proj.weight",
                             "grad.transformer.wte.weight", "output.logits", "output.loss"}) {
    for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
      Altered file("pre");
      const at::Tensor t = file.at(tensor).view({-1});
      t[t.numel() / 2].add_(0.05);
      EXPECT_FALSE(check_parity(file.save(folder), {at::kCPU, dtype, true}).ok()) << tensor;
    }
  }
}

TEST(ParityCheck, NanFails) {
  const TempFolder folder;
  Altered file("siamese");
  file.at("param.transformer.wte.weight").view({-1})[3].fill_(NAN);
  EXPECT_FALSE(check_parity(file.save(folder), {at::kCPU, at::kFloat, true}).ok());
}

TEST(ParityCheck, CutFilesAreRefused) {
  const TempFolder folder;
  const RandomKey key(5, 0, kTestSite);
  uint64_t draw = 0;
  for (const std::string& name : golden_files()) {
    const std::string whole = slurp(golden(name));
    for (int i = 0; i < 8; ++i) {
      // Half of the cuts fall into the header, the rest anywhere.
      const auto limit = static_cast<uint32_t>(i % 2 == 0 ? whole.size() : std::min<size_t>(whole.size(), 12000));
      const size_t size = below(key.word(draw++), limit);
      spill(folder.file("cut.safetensors"), whole.substr(0, size));
      const std::string error = error_of([&] {
        check_parity(folder.file("cut.safetensors"), {at::kCPU, at::kFloat, true});
      });
      EXPECT_NE(error.find("cut.safetensors"), std::string::npos) << name << " cut at " << size << ": " << error;
    }
  }
}

TEST(ParityCheck, WrongConfigsAreRefused) {
  const TempFolder folder;
  const std::vector<std::pair<std::string, std::string>> wrong = {{"n_heads", "0"},
                                                                  {"n_heads", "-4"},
                                                                  {"n_heads", "3"},
                                                                  {"n_heads", "\"four\""},
                                                                  {"n_kv_heads", "0"},
                                                                  {"n_kv_heads", "3"},
                                                                  {"d_model", "0"},
                                                                  {"d_model", "-32"},
                                                                  {"d_model", "1000000000000"},
                                                                  {"d_model", "34"},
                                                                  {"n_layers", "0"},
                                                                  {"n_layers", "-1"},
                                                                  {"n_layers", "99"},
                                                                  {"n_layers", "1e300"},
                                                                  {"n_layers", "1000000000000"},
                                                                  {"vocab_size", "0"},
                                                                  {"vocab_size", "-7"},
                                                                  {"vocab_size", "4611686018427387904"},
                                                                  {"mlp_hidden_size", "0"},
                                                                  {"mlp_hidden_size", "-64"},
                                                                  {"mlp_hidden_size", "65"},
                                                                  {"mlp_hidden_size", "4611686018427387904"},
                                                                  {"scheme", "\"pro\""},
                                                                  {"scheme", "\"mhc\""},
                                                                  {"scheme", "3"},
                                                                  {"streams", "-1"},
                                                                  {"activation_type", "\"relu\""},
                                                                  {"norm", "\"batch\""},
                                                                  {"eps", "\"small\""},
                                                                  {"experts", "8"}};
  for (const auto& [key, value] : wrong) {
    Altered file(key == "streams" ? "hc_static" : "pre");
    file.set(key, value);
    const std::string path = file.save(folder);
    EXPECT_NE(error_of([&] { check_parity(path, {at::kCPU, at::kFloat, true}); }), "") << key << " " << value;
  }
}

TEST(ParityCheck, FilesThatAreNotGoldenAreRefused) {
  const TempFolder folder;
  auto refused = [&](const std::function<void(Altered&)>& change) {
    Altered file("post");
    change(file);
    const std::string path = file.save(folder);
    return error_of([&] { check_parity(path, {at::kCPU, at::kFloat, true}); });
  };
  EXPECT_NE(refused([](Altered& f) { f.metadata.erase("config"); }), "");
  EXPECT_NE(refused([](Altered& f) { f.metadata.erase("model"); }), "");
  EXPECT_NE(refused([](Altered& f) { f.metadata["model"] = "gpt"; }), "");
  EXPECT_NE(refused([](Altered& f) { f.metadata["config"] = "[1, 2]"; }), "");
  EXPECT_NE(refused([](Altered& f) { f.metadata["config"].pop_back(); }), "");
  EXPECT_NE(refused([](Altered& f) { f.at("input.ids").view({-1})[0].fill_(1 << 20); }), "");
  EXPECT_NE(refused([](Altered& f) { f.at("input.ids").view({-1})[0].fill_(-1); }), "");
  EXPECT_NE(error_of([&] { check_parity(folder.file("absent"), {at::kCPU, at::kFloat, true}); }), "");
  // A tensor too many, too few, or of another shape.
  EXPECT_NE(refused([](Altered& f) { f.tensors.emplace_back("param.extra", at::zeros({2})); }), "");
  const std::string last = Altered("post").tensors.back().first;
  ASSERT_TRUE(last.starts_with("param.")) << last;
  EXPECT_NE(refused([](Altered& f) { f.tensors.pop_back(); }), "");
  EXPECT_NE(refused([](Altered& f) { f.tensors.back().second = f.tensors.back().second.unsqueeze(0); }), "");
}

}  // namespace
}  // namespace siamese
