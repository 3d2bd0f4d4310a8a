#include "train/tensor_copier.h"

#include <ATen/ATen.h>

#include <cstring>

#include "util/error.h"

namespace siamese {

TensorCopier::TensorCopier(at::Device device, const std::vector<Part>& parts) {
  constexpr size_t kAlign = 256;
  size_t bytes = 0;
  for (const Part& p : parts) {
    offsets_.push_back(bytes);
    int64_t n = static_cast<int64_t>(c10::elementSize(p.type));
    for (const int64_t size : p.shape) n *= size;
    sizes_.push_back(static_cast<size_t>(n));
    bytes += (static_cast<size_t>(n) + kAlign - 1) / kAlign * kAlign;
  }
  target_ = at::zeros({static_cast<int64_t>(bytes)}, at::TensorOptions().dtype(at::kByte).device(device));
  for (size_t i = 0; i < parts.size(); ++i)
    views_.push_back(target_.narrow(0, static_cast<int64_t>(offsets_[i]), static_cast<int64_t>(sizes_[i]))
                         .view(parts[i].type)
                         .view(parts[i].shape));
  if (device.is_cpu()) {
    waiting_.resize(bytes);
    return;
  }
  for (auto& lane : lanes_) lane = gpu_tools()->make_copy_lane(bytes);
}

void TensorCopier::send(const std::vector<std::span<const std::byte>>& values) {
  std::byte* to = waiting_.data();
  if (lanes_[0]) {
    last_ = 1 - last_;
    to = static_cast<std::byte*>(lanes_[last_]->host());
  }
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].size() != sizes_[i]) fail("a batch has {} bytes where {} belong", values[i].size(), sizes_[i]);
    std::memcpy(to + offsets_[i], values[i].data(), values[i].size());
  }
  if (lanes_[0]) lanes_[last_]->send();
}

void TensorCopier::place() {
  if (lanes_[0]) {
    lanes_[last_]->place(target_.mutable_data_ptr());
  } else {
    std::memcpy(target_.mutable_data_ptr(), waiting_.data(), waiting_.size());
  }
}

}  // namespace siamese
