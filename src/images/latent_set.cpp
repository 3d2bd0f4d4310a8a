#include "images/latent_set.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "io/safetensors.h"
#include "util/error.h"
#include "util/text.h"

namespace siamese {
namespace {

constexpr int64_t kEvery = 20;  // of the samples validates, where there is no other file

/// IEEE half precision.
float from_half(uint16_t h) {
  const uint32_t sign = (h & 0x8000U) << 16, exponent = h >> 10 & 31U, fraction = h & 0x3ffU;
  if (exponent == 0) {  // zero or subnormal: fraction·2^-24
    const float value = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -value : value;
  }
  const uint32_t wide = exponent == 31 ? 255U : exponent + 112U;
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

/// The file, opened once for both halves.
struct Latents {
  explicit Latents(const std::string& path) : file(path) {}
  SafetensorsFile file;
  std::vector<int64_t> labels, shape;
  std::vector<std::string> names;

  int64_t values() const { return shape[1] * shape[2] * shape[3]; }
};

std::shared_ptr<const Latents> open_latents(const std::string& path, int64_t channels, int64_t size) {
  auto data = std::make_shared<Latents>(path);
  const TensorView &latents = data->file.at("latents"), &labels = data->file.at("labels");
  data->shape = latents.shape;
  const std::vector<int64_t>& s = data->shape;
  if (s.size() != 4 || s[1] != channels || s[2] != size || s[3] != size)
    fail("{}: latents are {}, expected [N, {}, {}, {}] by model.channels and model.image_size", path,
         describe(latents.dtype, s), channels, size, size);
  const bool real = latents.dtype == DType::F32 || latents.dtype == DType::F16 || latents.dtype == DType::BF16;
  if (!real) fail("{}: latents are {}, expected F32, F16 or BF16", path, dtype_name(latents.dtype));
  if (labels.shape != std::vector<int64_t>{s[0]} || (labels.dtype != DType::I64 && labels.dtype != DType::I32))
    fail("{}: labels are {}, expected I64 or I32 [{}]", path, describe(labels.dtype, labels.shape), s[0]);
  int64_t most = 0;
  for (int64_t i = 0; i < s[0]; ++i) {
    int64_t label = 0;
    if (labels.dtype == DType::I64) {
      std::memcpy(&label, labels.bytes.data() + i * 8, 8);
    } else {
      int32_t narrow = 0;
      std::memcpy(&narrow, labels.bytes.data() + i * 4, 4);
      label = narrow;
    }
    if (label < 0 || label >= int64_t{1} << 24) fail("{}: label {} of sample {} is out of range", path, label, i);
    data->labels.push_back(label);
    most = std::max(most, label);
  }
  if (s[0] < 2) fail("{}: holds {} samples, expected two or more", path, s[0]);
  for (int64_t c = 0; c <= most; ++c) data->names.push_back(fmt::format("{}", c));
  return data;
}

class LatentSet final : public ImageSet {
 public:
  LatentSet(std::shared_ptr<const Latents> data, std::vector<int64_t> rows, double scale)
      : data_(std::move(data)), rows_(std::move(rows)), scale_(static_cast<float>(scale)) {}

  int64_t size() const override { return static_cast<int64_t>(rows_.size()); }
  int64_t label(int64_t index) const override { return data_->labels[row(index)]; }
  Image load(int64_t, int) const override { fail("{}: latents are no pictures", data_->file.name()); }
  std::string name(int64_t index) const override { return fmt::format("{} sample {}", data_->file.name(), row(index)); }
  const std::vector<std::string>& class_names() const override { return data_->names; }
  std::string describe() const override {
    return fmt::format("{} latents {} × {} × {} in {}", human_count(static_cast<double>(rows_.size())), data_->shape[1],
                       data_->shape[2], data_->shape[3], data_->file.name());
  }
  int64_t decoded_bytes(int) const override { return 0; }
  bool in_memory() const override { return true; }
  bool pictures() const override { return false; }

  void values(int64_t index, std::span<float> out) const override {
    const TensorView& all = data_->file.at("latents");
    const size_t n = static_cast<size_t>(data_->values()), width = dtype_size(all.dtype);
    if (out.size() != n) fail("{}: {} values asked of a latent of {}", data_->file.name(), out.size(), n);
    const std::byte* from = all.bytes.data() + row(index) * n * width;
    if (all.dtype == DType::F32) {
      std::memcpy(out.data(), from, n * width);
    } else {
      for (size_t i = 0; i < n; ++i) {
        uint16_t bits = 0;
        std::memcpy(&bits, from + 2 * i, 2);
        out[i] = all.dtype == DType::BF16 ? std::bit_cast<float>(static_cast<uint32_t>(bits) << 16) : from_half(bits);
      }
    }
    for (float& v : out) v *= scale_;
  }

 private:
  size_t row(int64_t index) const { return static_cast<size_t>(rows_.at(static_cast<size_t>(index))); }

  std::shared_ptr<const Latents> data_;
  std::vector<int64_t> rows_;
  float scale_;
};

}  // namespace

ImageSets make_latent_sets(const DataConfig& data, int64_t channels, int64_t size, double scale) {
  const auto all = open_latents(data.images, channels, size);
  const bool apart = !data.validation_images.empty();
  std::vector<int64_t> train, validation;
  for (int64_t i = 0; i < all->shape[0]; ++i)
    (!apart && (i % kEvery == kEvery - 1 || all->shape[0] < kEvery) ? validation : train).push_back(i);
  if (!apart && train.empty()) train = validation;  // a handful of samples serve as both
  auto held_out = all;
  if (apart) {
    held_out = open_latents(data.validation_images, channels, size);
    for (int64_t i = 0; i < held_out->shape[0]; ++i) validation.push_back(i);
  }
  return {std::make_shared<LatentSet>(all, train, scale), std::make_shared<LatentSet>(held_out, validation, scale)};
}

}  // namespace siamese
