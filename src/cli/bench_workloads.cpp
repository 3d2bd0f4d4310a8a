#include "cli/bench_workloads.h"

#include <algorithm>

#include "cli/common.h"
#include "train/device.h"
#include "train/execution.h"
#include "train/memory.h"
#include "train/models.h"
#include "util/error.h"
#include "util/text.h"

namespace siamese::cli {
namespace {

/// The workloads of the comparison with PyTorch: batch and length as its benchmark has them.
struct Workload {
  const char* name;
  std::vector<std::string> set;
};
const std::vector<Workload>& workloads() {
  static const std::vector<Workload> all = {
      {"lm-400m", {"train.batch_size=16", "train.micro_batch_size=16", "train.sequence_length=2048"}},
      {"lm-1.2b", {"train.batch_size=4", "train.micro_batch_size=4", "train.sequence_length=4096"}},
      {"deit-s",
       {"train.batch_size=256", "train.micro_batch_size=256", "train.clip=1", "train.ema=0", "model.drop_path=0"}},
      {"dit-b2", {"train.batch_size=256", "train.micro_batch_size=256", "train.clip=1", "train.ema=0"}},
  };
  return all;
}

Recipe recipe_of(const std::string& name, const std::string& scheme, const std::vector<std::string>& set) {
  std::vector<std::string> all;
  for (const Workload& w : workloads())
    if (name == w.name) all = w.set;
  all.insert(all.end(), set.begin(), set.end());
  all.push_back("model.scheme=" + scheme);
  return without_data(load_recipe(name, all));
}

}  // namespace

std::vector<Row> rows_of(const std::string& workload, const std::string& schemes, const std::vector<std::string>& set,
                         int64_t parts, at::Device device) {
  std::vector<Row> rows;
  for (const std::string& scheme : scheme_names_in(schemes)) {
    Row row;
    row.recipe = recipe_of(workload, scheme, set);
    if (row.recipe.data.document_masking)
      fail(
          "{}: data.document_masking is true, but bench's random inputs have no documents: "
          "--set data.document_masking=false",
          workload);
    check_execution(row.recipe, device);
    row.recipe.train.batch_size = parts * row.recipe.train.micro_batch_size;
    rows.push_back(std::move(row));
  }
  return rows;
}

/// On a GPU one scheme is there at a time; on a CPU the models of all are, of which one is at work.
void warn_of_memory(const std::string& workload, const std::vector<Row>& rows, at::Device device) {
  double needed = 0, all_resting = 0, most_working = 0;
  for (const Row& row : rows) {
    const MemoryPlan p =
        plan_memory(row.recipe, count_parameters(row.recipe), recompute_of(row.recipe, device), device);
    const double resting = p.parameters + p.optimizer + p.average, working = p.gradients + p.activations();
    needed = std::max(needed, resting + working);
    all_resting += resting;
    most_working = std::max(most_working, working);
  }
  if (device.is_cpu()) needed = all_resting + most_working;
  if (const double has = memory_of(device); has > 0 && needed > has)
    fmt::print(stderr, "bench: {} takes about {} of memory, and this {} has {}\n", workload, human_bytes(needed),
               device.is_cpu() ? "machine" : "GPU", human_bytes(has));
}

}  // namespace siamese::cli
