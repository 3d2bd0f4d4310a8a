// Checkpoints: a folder `step-00000200` with safetensors files and a manifest that is written last, so that its
// presence means "complete". A folder is built under another name and renamed when everything is on disk.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nn/tensor_io.h"
#include "recipe/recipe.h"

namespace siamese {

struct CheckpointState {
  int64_t step = 0;
  int64_t tokens = 0;                     // seen so far: the position in the data
  std::optional<double> validation_loss;  // at this step, where it was measured
  std::string recipe;                     // resolved, YAML
  std::vector<std::string> classes = {};  // of image models: names by label; older checkpoints have none
};

struct CheckpointTensors {
  NamedTensors weights, optimizer, average;  // average: empty without EMA
};

/// Writes `run`/checkpoints/step-N after checking the free space, then removes what retention does not keep: the newest
/// `keep` and the best by validation loss stay.
void save_checkpoint(const std::string& run, const CheckpointState& state, const CheckpointTensors& tensors,
                     const CheckpointConfig& config);

/// One complete checkpoint. Reading the manifest throws Error with the reason when it is missing, cut or altered.
class Checkpoint {
 public:
  explicit Checkpoint(const std::string& folder);
  const CheckpointState& state() const { return state_; }
  const std::string& folder() const { return folder_; }
  /// Size and hash of every file against the manifest; throws Error naming the first that differs.
  void verify() const;
  SafetensorsFile open(const std::string& file) const;  // "model.safetensors"
  bool has(const std::string& file) const;
  Recipe recipe() const;
  std::string manifest_text() const { return manifest_; }

 private:
  struct File {
    std::string name, hash;
    uint64_t bytes;
  };
  std::string folder_, manifest_;
  CheckpointState state_;
  std::vector<File> files_;
};

/// Folders `step-*` below `run`/checkpoints, oldest first; unfinished ones are not listed.
std::vector<std::string> list_checkpoints(const std::string& run);

/// Renames the run's checkpoints after `step` so that they are not listed: they belong to a future that is about to be
/// rewritten, but are the user's to throw away.
void set_aside_after(const std::string& run, int64_t step);

/// A checkpoint folder, or the newest of a run folder, verified. A damaged one is refused with its reason and the
/// newest whole one before it is named.
Checkpoint find_checkpoint(const std::string& path);

}  // namespace siamese
