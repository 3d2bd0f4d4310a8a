#include "train/documents.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "models/language_model.h"
#include "util/error.h"

namespace siamese {

DocumentEnds document_ends(const at::Tensor& ids, int64_t eos) {
  const int64_t rows = ids.size(0), length = ids.size(1);
  if (rows * length > std::numeric_limits<int32_t>::max())
    fail("train.micro_batch_size: {} × {} tokens are more than document masking can count", rows, length);
  DocumentEnds found{{0}, 0};
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t* row = ids.const_data_ptr<int64_t>() + r * ids.stride(0);
    for (int64_t i = 0; i < length; ++i) {
      if (row[i] != eos && i + 1 < length) continue;
      const int64_t end = r * length + i + 1;
      found.longest = std::max(found.longest, end - found.ends.back());
      found.ends.push_back(static_cast<int32_t>(end));
    }
  }
  return found;
}

void mask_documents(Forward& forward, const at::Tensor& ids, int64_t eos, at::Device device) {
  const at::Tensor numbers = document_numbers(ids, eos);
  const DocumentEnds found = document_ends(ids, eos);
  forward.host_document_ends = std::make_shared<const std::vector<int32_t>>(found.ends);
  if (device.is_cpu()) {
    forward.documents = numbers;
    return;
  }
  // Dropout on attention's probabilities, which lie in memory then, takes the numbers.
  forward.documents = numbers.pin_memory().to(device, /*non_blocking=*/true);
  const at::Tensor ends =
      at::empty({static_cast<int64_t>(found.ends.size())}, at::TensorOptions().dtype(at::kInt).pinned_memory(true));
  std::memcpy(ends.mutable_data_ptr(), found.ends.data(), found.ends.size() * sizeof(int32_t));
  forward.document_ends = ends.to(device, /*non_blocking=*/true);
  forward.longest_document = found.longest;
}

}  // namespace siamese
