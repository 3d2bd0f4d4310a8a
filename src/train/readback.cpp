#include "train/readback.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "train/optimizer.h"
#include "util/clock.h"

namespace siamese {
namespace {

// Enough to keep a GPU busy while the host writes a line; more would only delay the news.
constexpr size_t kAhead = 3;

}  // namespace

Readback::Mark Readback::mark() const {
  Mark m;
  if (device_.is_cpu()) {
    m.host = seconds_now();
  } else {
    m.event.emplace(device_.type(), c10::EventFlag::BACKEND_DEFAULT);  // the kind that keeps time
    m.event->record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  }
  return m;
}

void Readback::begin() { begin_ = mark(); }

void Readback::end(int64_t step, double lr, const at::Tensor& found) {
  at::Tensor values = found;
  if (!device_.is_cpu()) {
    values = at::empty(found.sizes(), at::TensorOptions().dtype(at::kDouble).pinned_memory(true));
    values.copy_(found, /*non_blocking=*/true);
  }
  flying_.push_back({step, lr, std::move(values), std::move(begin_), mark()});
}

bool Readback::due() const {
  if (flying_.empty()) return false;
  const Flight& oldest = flying_.front();
  return !oldest.end.event || flying_.size() > kAhead || oldest.end.event->query();
}

StepResult Readback::take() {
  const Flight flight = std::move(flying_.front());
  flying_.pop_front();
  double seconds = flight.end.host - flight.begin.host;
  if (flight.end.event) {
    flight.end.event->synchronize();
    seconds = 1e-3 * flight.begin.event->elapsedTime(*flight.end.event);
  }
  const double* v = flight.values.const_data_ptr<double>();
  return {flight.step,
          flight.lr,
          v[kStepLoss],
          v[kStepNorm],
          v[kStepBad] != 0,
          seconds,
          std::vector<double>(v + kStepValues, v + flight.values.numel())};
}

}  // namespace siamese
