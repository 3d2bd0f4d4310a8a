#include "train/checkpoint.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "train/device.h"
#include "util/error.h"
#include "util/files.h"

namespace siamese {
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr int kFormat = 1;
constexpr const char* kManifest = "manifest.json";

std::string step_name(int64_t step) { return fmt::format("step-{:08}", step); }

/// Absolute and without a trailing slash, so that name and parents can be asked for.
fs::path settled(const std::string& folder) {
  const fs::path p = fs::absolute(folder).lexically_normal();
  return p.has_filename() ? p : p.parent_path();
}

uint64_t bytes_of(const NamedTensors& tensors) {
  uint64_t n = 0;
  for (const auto& [name, t] : tensors) n += t.nbytes() + 256;  // the header's share
  return n;
}

/// Keeps the newest `keep` and the best; a folder whose manifest cannot be read is left alone.
void retain(const std::string& run, int64_t keep) {
  const std::vector<std::string> all = list_checkpoints(run);
  std::string best;
  double best_loss = 0;
  std::vector<std::string> readable;
  for (const std::string& folder : all) {
    try {
      const Checkpoint c(folder);
      readable.push_back(folder);
      const auto loss = c.state().validation_loss;
      if (loss && (best.empty() || *loss < best_loss)) best = folder, best_loss = *loss;
    } catch (const Error&) {
    }
  }
  const size_t newest = std::min(readable.size(), static_cast<size_t>(std::max<int64_t>(keep, 1)));
  for (size_t i = 0; i + newest < readable.size(); ++i) {
    if (readable[i] == best) continue;
    // Renamed first: a kill in the middle of the removal must not leave half a checkpoint under a valid name.
    const std::string doomed = readable[i] + ".removed";
    fs::rename(readable[i], doomed);
    fs::remove_all(doomed);
  }
}

}  // namespace

void save_checkpoint(const std::string& run, const CheckpointState& state, const CheckpointTensors& tensors,
                     const CheckpointConfig& config) {
  const fs::path parent = fs::path(run) / "checkpoints", final = parent / step_name(state.step);
  const fs::path partial = final.string() + ".partial";
  fs::create_directories(parent);
  for (const auto& entry : fs::directory_iterator(parent))  // what a killed process left
    if (entry.path().extension() == ".partial" || entry.path().extension() == ".removed") fs::remove_all(entry.path());
  require_free_space(parent.string(),
                     bytes_of(tensors.weights) + bytes_of(tensors.optimizer) + bytes_of(tensors.average) + (1 << 20));
  fs::create_directory(partial);

  json files = json::object();
  auto write = [&](const char* name, const NamedTensors& what) {
    if (what.empty()) return;
    const std::string path = (partial / name).string();
    const std::string hash = save_tensors(path, what, {{"format", "siamese"}});
    files[name] = {{"bytes", fs::file_size(path)}, {"xxh64", hash}};
  };
  write("model.safetensors", tensors.weights);
  write("ema.safetensors", tensors.average);
  write("optimizer.safetensors", tensors.optimizer);

  const Versions v = versions();
  json manifest = {
      {"format", kFormat},
      {"step", state.step},
      {"tokens", state.tokens},
      {"files", files},
      {"recipe", state.recipe},
      {"versions", {{"siamese", v.revision}, {"libtorch", v.libtorch}, {"cuda", v.cuda}, {"cudnn", v.cudnn}}}};
  if (state.validation_loss) manifest["validation_loss"] = *state.validation_loss;
  if (!state.classes.empty()) manifest["classes"] = state.classes;
  // The manifest vouches for itself too: its hash covers everything above.
  const std::string body = manifest.dump(1);
  manifest["xxh64"] = hash_bytes(std::as_bytes(std::span(body)));
  write_file_atomic((partial / kManifest).string(), manifest.dump(1));
  fs::remove_all(final);  // a refused or rerun one of the same step
  fs::rename(partial, final);
  sync_folder(parent.string());
  retain(run, config.keep);
}

Checkpoint::Checkpoint(const std::string& folder) : folder_(folder) {
  const std::string path = (fs::path(folder) / kManifest).string();
  if (!fs::exists(path)) fail("{}: not a complete checkpoint: it has no {}", folder, kManifest);
  manifest_ = read_file(path, 64 << 20);
  try {
    json j = json::parse(manifest_);
    const std::string hash = j.at("xxh64").get<std::string>();
    j.erase("xxh64");
    const std::string body = j.dump(1);
    if (hash_bytes(std::as_bytes(std::span(body))) != hash) fail("{}: the manifest was altered", path);
    if (j.at("format").get<int>() != kFormat)
      fail("{}: format {} is not one this program reads", path, j.at("format").dump());
    state_.step = j.at("step").get<int64_t>();
    state_.tokens = j.at("tokens").get<int64_t>();
    state_.recipe = j.at("recipe").get<std::string>();
    if (j.contains("validation_loss")) state_.validation_loss = j["validation_loss"].get<double>();
    if (j.contains("classes")) state_.classes = j["classes"].get<std::vector<std::string>>();
    for (const auto& [name, file] : j.at("files").items())
      files_.push_back({name, file.at("xxh64").get<std::string>(), file.at("bytes").get<uint64_t>()});
  } catch (const json::exception&) {
    fail("{}: the manifest is cut or altered", path);
  }
}

void Checkpoint::verify() const {
  for (const File& f : files_) {
    const std::string path = (fs::path(folder_) / f.name).string();
    std::error_code error;
    const uint64_t size = fs::file_size(path, error);
    if (error) fail("{}: {}", path, error.message());
    if (size != f.bytes) fail("{}: has {} bytes, the manifest says {}", path, size, f.bytes);
    if (hash_file(path) != f.hash) fail("{}: the contents were altered (hash differs from the manifest)", path);
  }
}

bool Checkpoint::has(const std::string& file) const {
  return std::any_of(files_.begin(), files_.end(), [&](const File& f) { return f.name == file; });
}

SafetensorsFile Checkpoint::open(const std::string& file) const {
  if (!has(file)) fail("{}: holds no {}", folder_, file);
  return SafetensorsFile((fs::path(folder_) / file).string());
}

Recipe Checkpoint::recipe() const { return parse_recipe(state_.recipe, folder_ + "/manifest.json"); }

std::vector<std::string> list_checkpoints(const std::string& run) {
  std::vector<std::string> all;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(fs::path(run) / "checkpoints", error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("step-") && entry.path().extension().empty()) all.push_back(entry.path().string());
  }
  std::sort(all.begin(), all.end());
  return all;
}

void set_aside_after(const std::string& run, int64_t step) {
  for (const std::string& other : list_checkpoints(run)) {
    if (fs::path(other).filename().string() <= step_name(step)) continue;
    std::string name = other + ".set-aside";
    for (int n = 2; fs::exists(name); ++n) name = fmt::format("{}.set-aside-{}", other, n);
    fs::rename(other, name);
  }
}

Checkpoint find_checkpoint(const std::string& path) {
  if (!fs::exists(path)) fail("{}: no such file or folder", path);
  if (!fs::is_directory(path)) fail("{}: a checkpoint is a folder with a manifest.json, this is a file", path);
  std::vector<std::string> candidates = list_checkpoints(path);
  const bool run = !candidates.empty();
  if (!run && fs::exists(fs::path(path) / "recipe.yaml")) fail("{}: this run has no checkpoint yet", path);
  if (!run) candidates = {path};
  try {
    Checkpoint newest(candidates.back());
    newest.verify();
    return newest;
  } catch (const Error& e) {
    const fs::path damaged = settled(candidates.back());
    std::vector<std::string> others = run ? candidates : list_checkpoints(damaged.parent_path().parent_path().string());
    for (auto it = others.rbegin(); it != others.rend(); ++it) {
      if (fs::path(*it).filename() >= damaged.filename()) continue;
      try {
        const Checkpoint earlier(*it);
        earlier.verify();
      } catch (const Error&) {
        continue;
      }
      fail("{}; the checkpoint before it is whole: {}", e.what(), *it);
    }
    throw;
  }
}

}  // namespace siamese
