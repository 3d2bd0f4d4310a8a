#include "train/batch_copier.h"

#include <ATen/ATen.h>

#include <cstring>

#include "models/language_model.h"
#include "train/documents.h"

namespace siamese {

BatchCopier::BatchCopier(GpuTools& tools, at::Device device, const BatchShape& shape) : shape_(shape) {
  const int64_t parts = shape.masked ? shape.rows / shape.part_rows : 0, bytes = ids_bytes() + parts * ends_bytes();
  target_ = at::empty({bytes}, at::TensorOptions().dtype(at::kByte).device(device));
  for (auto& lane : lanes_) lane = tools.make_copy_lane(static_cast<size_t>(bytes));
}

int64_t BatchCopier::ids_bytes() const { return shape_.rows * shape_.width * static_cast<int64_t>(sizeof(int64_t)); }

int64_t BatchCopier::ends_bytes() const {
  return (shape_.part_rows * (shape_.width - 1) + 1) * static_cast<int64_t>(sizeof(int32_t));
}

void BatchCopier::send(std::span<const int64_t> ids) {
  TORCH_CHECK(static_cast<int64_t>(ids.size_bytes()) == ids_bytes(), "[batch_copier] a batch of ", ids.size(),
              " ids but it should be ", shape_.rows, " × ", shape_.width);
  last_ = (last_ + 1) % kLanes;
  auto* to = static_cast<std::byte*>(lanes_[last_]->host());
  std::memcpy(to, ids.data(), ids.size_bytes());
  if (shape_.masked) {
    sent_.clear();
    const at::Tensor all = at::from_blob(const_cast<int64_t*>(ids.data()), {shape_.rows, shape_.width}, at::kLong);
    for (const at::Tensor& rows : all.slice(1, 0, shape_.width - 1).split(shape_.part_rows)) {
      const DocumentEnds found = document_ends(rows, shape_.eos);
      std::memcpy(to + ids_bytes() + static_cast<int64_t>(sent_.size()) * ends_bytes(), found.ends.data(),
                  found.ends.size() * sizeof(int32_t));
      sent_.push_back({std::make_shared<const std::vector<int32_t>>(found.ends), found.longest});
    }
  }
  lanes_[last_]->send();
}

void BatchCopier::place() {
  lanes_[last_]->place(target_.mutable_data_ptr());
  ends_ = sent_;
}

at::Tensor BatchCopier::ids(int64_t part) const {
  const at::Tensor all = target_.narrow(0, 0, ids_bytes()).view(at::kLong).view({shape_.rows, shape_.width});
  return all.narrow(0, part * shape_.part_rows, shape_.part_rows);
}

void BatchCopier::mask(Forward& forward, int64_t part) const {
  const Ends& e = ends_.at(static_cast<size_t>(part));
  // Dropout on attention's probabilities, which lie in memory then, takes the numbers.
  forward.documents = document_numbers(ids(part).slice(1, 0, shape_.width - 1), shape_.eos);
  const auto bytes = static_cast<int64_t>(e.all->size() * sizeof(int32_t));
  forward.document_ends = target_.narrow(0, ids_bytes() + part * ends_bytes(), bytes).view(at::kInt);
  forward.host_document_ends = e.all;
  forward.longest_document = e.longest;
}

}  // namespace siamese
