// The folder of a run: recipe.yaml, run.json, metrics.jsonl, products.txt (on a GPU), checkpoints/. One process at a
// time.
#pragma once

#include <string>
#include <vector>

#include "recipe/recipe.h"

namespace siamese {

enum class OpenMode { fresh, resume, overwrite };

class RunFolder {
 public:
  /// fresh: refuses a folder that holds a run. resume and overwrite: keep it; a folder without a run is begun. Throws
  /// Error when another process trains in it.
  RunFolder(const std::string& path, OpenMode mode);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  /// Stores the resolved recipe.
  void store_recipe(const Recipe& recipe);
  /// Removes the run's files and nothing else: for overwrite, once nothing can be wrong with the new run any more.
  void clear();
  /// Grids of samples (train/dit_task.h) of later steps: they belong to a future that is about to be rewritten.
  void remove_pictures_after(int64_t step);

  static bool holds_run(const std::string& path);

 private:
  std::string path_;
  int lock_ = -1;
};

/// Throws Error naming the first line in which the two differ and a resumed run may not: model, data, train.seed,
/// train.batch_size, train.sequence_length.
void require_same_run(const Recipe& now, const std::string& stored_yaml, const std::string& origin);
/// Names of classes by label: a folder renamed, added or gone would change what the labels mean. Older checkpoints hold
/// none.
void require_same_classes(const std::vector<std::string>& now, const std::vector<std::string>& stored,
                          const std::string& origin);

}  // namespace siamese
