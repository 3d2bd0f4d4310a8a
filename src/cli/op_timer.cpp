#include "cli/op_timer.h"

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>

#include "ops/gpu_tools.h"
#include "train/device.h"
#include "util/error.h"

namespace siamese::cli {
namespace {

constexpr int kQueued = 12, kRepeats = 5;  // calls between two events; the median of so many measurements
constexpr int64_t kHeadStart = int64_t{1} << 30;

}  // namespace

OpTimer::OpTimer(at::Device on, bool json, std::vector<std::string> only)
    : device(on), json_(json), only_(std::move(only)) {
  table_ = {{"operator", "size", "pass", "us", "TB/s", "copy TB/s", "% of the copy"}};
  head_start_ = at::zeros({2, kHeadStart}, at::TensorOptions().device(device).dtype(at::kByte));
}

bool OpTimer::wants(const std::string& op) {
  names_.insert(op);
  bool wanted = only_.empty();
  for (const std::string& part : only_)
    if (op.find(part) != std::string::npos) found_.insert(part), wanted = true;
  return wanted;
}

double OpTimer::microseconds(const std::function<void(int)>& call) const {
  const c10::impl::VirtualGuardImpl guard(c10::kCUDA);
  const auto stream = guard.getStream(device);
  for (int set = 0; set < kOpSets; ++set) call(set);  // kernels are loaded, memory is in the allocator's hands
  std::vector<double> us;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    gpu_tools()->synchronize();
    // The device is kept busy (about 2 ms) until all calls are queued: their launch latency does not count.
    for (int i = 0; i < 4; ++i) head_start_[0].copy_(head_start_[1]);
    c10::Event a(c10::kCUDA, c10::EventFlag::BACKEND_DEFAULT), b(c10::kCUDA, c10::EventFlag::BACKEND_DEFAULT);
    a.record(stream);
    for (int i = 0; i < kQueued; ++i) call((repeat * kQueued + i) % kOpSets);
    b.record(stream);
    gpu_tools()->synchronize();
    us.push_back(1e3 * a.elapsedTime(b) / kQueued);
  }
  std::sort(us.begin(), us.end());
  return us[us.size() / 2];
}

double OpTimer::copy_microseconds(int64_t bytes) {
  // Half is read, half is written.
  const at::Tensor from = at::empty({kOpSets, bytes / 2}, head_start_.options()).random_(), to = at::empty_like(from);
  return microseconds([&](int set) { to[set].copy_(from[set]); });
}

void OpTimer::row(const std::string& op, const std::string& size, const std::string& pass, int64_t bytes,
                  const std::function<void(int)>& call) {
  // One after the other, so that both see the same clocks and temperature.
  const double us = microseconds(call), copy_us = copy_microseconds(bytes);
  const double tbps = static_cast<double>(bytes) / us / 1e6, copy = static_cast<double>(bytes) / copy_us / 1e6;
  const double percent = 100 * tbps / copy;
  if (json_) {
    fmt::print(
        "{{\"op\": \"{}\", \"size\": \"{}\", \"pass\": \"{}\", \"us\": {:.2f}, \"tbps\": {:.3f}, \"copy_tbps\": "
        "{:.3f}, \"percent\": {:.1f}, \"deterministic\": {}, \"device\": \"{}\", \"revision\": \"{}\"}}\n",
        op, size, pass, us, tbps, copy, percent, at::globalContext().deterministicAlgorithms(),
        gpu_tools()->device_name(), versions().revision);
    std::fflush(stdout);
  } else {
    table_.push_back({op, size, pass, fmt::format("{:.1f}", us), fmt::format("{:.2f}", tbps),
                      fmt::format("{:.2f}", copy), fmt::format("{:.0f} %", percent)});
  }
}

void OpTimer::require_all() const {
  for (const std::string& part : only_)
    if (found_.count(part) == 0)
      fail("--ops {}: no operator's name has that in it; there are: {}", part, fmt::join(names_, ", "));
}

std::string OpTimer::table() const { return table_.size() > 1 ? render_text(table_) : ""; }

int64_t bytes_of_rows(const std::vector<at::Tensor>& tensors) {
  std::set<const void*> seen;
  int64_t bytes = 0, most = 0;
  for (const at::Tensor& t : tensors)
    if (t.defined()) most = std::max(most, t.numel());
  for (const at::Tensor& t : tensors)
    if (t.defined() && t.numel() >= most / 8 && seen.insert(t.const_data_ptr()).second)
      bytes += static_cast<int64_t>(t.nbytes());
  return bytes;
}

}  // namespace siamese::cli
