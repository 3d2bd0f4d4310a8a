// Times operators on the GPU against a copy of the same number of bytes.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "report/report.h"

namespace siamese::cli {

/// Input sets that the calls rotate among: each is larger than the L2 cache, so that what a call reads has left the
/// cache since the set was last used.
inline constexpr int kOpSets = 3;

class OpTimer {
 public:
  /// Rows whose operator's name contains none of `only` are left out; empty: all are taken.
  OpTimer(at::Device device, bool json, std::vector<std::string> only);

  bool wants(const std::string& op);
  /// Times call(set), set in [0, kOpSets), which moves `bytes`, and the copy beside it.
  void row(const std::string& op, const std::string& size, const std::string& pass, int64_t bytes,
           const std::function<void(int)>& call);
  /// Throws Error with the names there are where one of `only` is in none of them.
  void require_all() const;
  /// The rows so far, for people; empty where they were printed as JSON lines.
  std::string table() const;

  const at::Device device;

 private:
  double microseconds(const std::function<void(int)>& call) const;
  double copy_microseconds(int64_t bytes);

  const bool json_;
  const std::vector<std::string> only_;
  std::set<std::string> names_, found_;  // asked about; of `only`, in one of these
  Table table_;
  at::Tensor head_start_;
};

/// Bytes of the tensors that hold a row of `d` values a token or more, each counted once. The few numbers a token that
/// statistics and maps are, and the parameters, are left out: what must move at least.
int64_t bytes_of_rows(const std::vector<at::Tensor>& tensors);

}  // namespace siamese::cli
