// The golden file of the Gaussian diffusion: it is met, and what differs or is unknown is noticed.
#include "models/parity_diffusion.h"

#include <cmath>
#include <functional>

#include "nn/tensor_io.h"
#include "tiny.h"

namespace siamese {
namespace {

const std::string kGolden = SIAMESE_SOURCE_DIR "/tests/golden/diffusion.safetensors";

using Tensors = std::map<std::string, at::Tensor>;

class DiffusionGolden : public testing::Test {
 protected:
  static ParityResult check(const std::string& path, at::ScalarType dtype = at::kFloat) {
    return check_diffusion_parity(SafetensorsFile(path), path, {at::kCPU, dtype, true});
  }
  /// Writes the file again, its tensors and its config changed.
  void alter(const std::function<void(Tensors&, std::string& config)>& change) const {
    const SafetensorsFile file(kGolden);
    Tensors tensors;
    for (const auto& [name, view] : file.tensors()) tensors[name] = to_tensor(view);
    auto metadata = file.metadata();
    change(tensors, metadata.at("config"));
    save_tensors(path_, {tensors.begin(), tensors.end()}, metadata);
  }
  std::string refusal() const {
    return error_of([&] { check(path_); });
  }
  const TempFolder folder_;
  const std::string path_ = folder_.file("altered.safetensors");
};

void replace(std::string& text, const std::string& from, const std::string& to) {
  ASSERT_NE(text.find(from), std::string::npos) << from;
  text.replace(text.find(from), from.size(), to);
}

TEST_F(DiffusionGolden, EveryOutputAgrees) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    const ParityResult r = check(kGolden, dtype);
    EXPECT_TRUE(r.ok()) << r.worst_output << " " << r.output_error;
    EXPECT_LE(r.output_error, 2e-6) << r.worst_output;
  }
}

TEST_F(DiffusionGolden, OneWrongNumberFails) {
  const SafetensorsFile file(kGolden);
  for (const auto& [name, view] : file.tensors()) {
    if (!name.starts_with("output.")) continue;
    alter([&](Tensors& tensors, auto&) { tensors[name].view({-1})[0].add_(1); });
    EXPECT_FALSE(check(path_).ok()) << name;
    if (view.dtype == DType::I64) continue;
    alter([&](Tensors& tensors, auto&) { tensors[name].view({-1})[0].fill_(NAN); });
    EXPECT_FALSE(check(path_).ok()) << name;
  }
}

/// Other variances: the mean and x_0 stay, the bound falls away, and nothing has to be respaced.
TEST_F(DiffusionGolden, FixedVariancesAndNoRespacing) {
  for (const char* variance : {"fixed_large", "fixed_small"}) {
    alter([&](Tensors& f, std::string& config) {
      replace(config, "learned_range", variance);
      replace(config, "mse + vb (eps detached in vb)", "mse");
      replace(config, "\"250\"", "\"\"");
      const at::Tensor t = f.at("input.t"), betas = f.at("output.betas"), ab = f.at("output.alphas_cumprod");
      f["input.model_output"] = f.at("input.model_output").slice(1, 0, 4).contiguous();
      f["output.loss"] = f.at("output.mse").clone();
      at::Tensor v = betas * (1 - at::cat({at::ones({1}, at::kDouble), ab.slice(0, 0, 999)})) / (1 - ab);
      if (std::string(variance) == "fixed_large") v = at::cat({v.slice(0, 1, 2), betas.slice(0, 1)});
      f["output.p_variance"] =
          v.index_select(0, t).to(at::kFloat).view({-1, 1, 1, 1}).expand_as(f.at("output.p_mean")).contiguous();
      for (const char* gone : {"output.vb", "output.p_log_variance", "output.respaced_timestep_map",
                               "output.respaced_betas", "output.ddim_sample", "input.respaced_t"})
        f.erase(gone);
    });
    EXPECT_TRUE(check(path_).ok()) << variance << " " << check(path_).worst_output;
  }
}

TEST_F(DiffusionGolden, UnknownConfigsAreRefusedByName) {
  const std::vector<std::pair<std::string, std::string>> wrong = {{"linear", "sigmoid"},
                                                                  {"epsilon", "x_start"},
                                                                  {"learned_range", "learned"},
                                                                  {"mse + vb", "rescaled_mse"},
                                                                  {"\"250\"", "\"ddim50\""},
                                                                  {"\"250\"", "1001"},
                                                                  {"1000", "-3"},
                                                                  {"1000", "1000000000"},
                                                                  {"\"linear\"", "7"},
                                                                  {"{", "["}};
  for (const auto& [from, to] : wrong) {
    alter([&](Tensors&, std::string& config) { replace(config, from, to); });
    const std::string error = refusal();
    EXPECT_NE(error.find(path_), std::string::npos) << to << ": " << error;
  }
}

TEST_F(DiffusionGolden, TensorsThatDoNotFitAreRefused) {
  auto broken = [&](const std::function<void(Tensors&)>& change) {
    alter([&](Tensors& tensors, auto&) { change(tensors); });
    return refusal();
  };
  EXPECT_NE(broken([](Tensors& f) { f["output.extra"] = at::zeros({1}); }).find("output.extra"), std::string::npos);
  EXPECT_NE(broken([](Tensors& f) { f["input.t"][0].fill_(1000); }).find("input.t"), std::string::npos);
  EXPECT_NE(broken([](Tensors& f) { f["input.respaced_t"][0].fill_(-1); }).find("respaced_t"), std::string::npos);
  EXPECT_NE(broken([](Tensors& f) { f["input.model_output"] = f["input.noise"]; }).find("model_output"),
            std::string::npos);
  EXPECT_NE(broken([](Tensors& f) { f["output.vb"] = at::zeros({5}); }).find("vb"), std::string::npos);
  EXPECT_NE(broken([](Tensors& f) { f.erase("input.noise"); }).find("input.noise"), std::string::npos);
  EXPECT_NE(broken([](Tensors& f) { std::erase_if(f, [](const auto& e) { return e.first.starts_with("output."); }); }),
            "");
}

}  // namespace
}  // namespace siamese
