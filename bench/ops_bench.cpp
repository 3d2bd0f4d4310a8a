// Speed of the stream step, fused and plain: build/ops_bench [--benchmark_filter=siamese/.*/tiny]
// Bytes are what must be moved at least (streams, update, gradients read once; results written once), so
// bytes_per_second compares with the machine's memory bandwidth. Names: form/path/pass/types/size; sizes are a batch of
// lm-tiny (8 x 256 rows of 256) and 1024 rows of the 1.3B model (2048).
#include <benchmark/benchmark.h>

#include <algorithm>

#include "op_cases.h"

namespace siamese {
namespace {

int64_t bytes_of(std::initializer_list<at::Tensor> tensors) {
  int64_t bytes = 0;
  for (const at::Tensor& t : tensors)
    if (t.defined()) bytes += static_cast<int64_t>(t.nbytes());
  return bytes;
}

void forward(benchmark::State& state, const StepCase& c, bool fused) {
  const StepInputs s = make_inputs(c);
  const at::NoGradGuard no_grad;
  StreamStepOutput out;
  for (auto _ : state) out = fused ? stream_step(s.in) : stream_step_plain(s.in);
  // A stream that passes through, or that is z itself, is not written.
  const at::Tensor x = out.x.is_same(s.in.x) || out.x.is_same(out.z) ? at::Tensor() : out.x;
  const at::Tensor y = out.y.is_same(s.in.y) ? at::Tensor() : out.y;
  state.SetBytesProcessed(state.iterations() * bytes_of({s.in.x, s.in.y, s.in.r, out.z, x, y}));
}

/// The graph is built once: what is timed is the backward pass alone.
void backward(benchmark::State& state, const StepCase& c, bool fused) {
  const StepInputs s = make_inputs(c);
  const StreamStepOutput out = fused ? stream_step(s.in) : stream_step_plain(s.in);
  for (auto _ : state) benchmark::DoNotOptimize(step_gradients(out, s, true, true, /*retain=*/true));
  const int64_t read = bytes_of({s.in.x, s.in.y, s.in.r, s.g_z, s.g_x, s.g_y}),
                written = bytes_of({s.in.x, s.in.y, s.in.r});
  state.SetBytesProcessed(state.iterations() * (read + written));
}

void add_benchmarks() {
  struct Size {
    const char* name;
    int64_t rows, d;
  };
  struct Types {
    const char* name;
    at::ScalarType streams, values;
  };
  const std::vector<std::string> wanted = {"norm_only", "pre", "post", "siamese", "hybrid"};
  for (const StepForm& form : step_forms()) {
    if (std::find(wanted.begin(), wanted.end(), form.name) == wanted.end()) continue;
    for (const Size& size : {Size{"tiny", 8 * 256, 256}, Size{"1.3b", 1024, 2048}})
      for (const Types& types : {Types{"f32", at::kFloat, at::kFloat}, Types{"f32_bf16", at::kFloat, at::kBFloat16}})
        for (const bool fused : {true, false})
          for (const bool back : {false, true}) {
            const StepCase c{form, NormKind::rms, Affine::gain, types.streams, types.values, size.rows, size.d};
            const std::string name = fmt::format("{}/{}/{}/{}/{}", form.name, fused ? "fused" : "plain",
                                                 back ? "backward" : "forward", types.name, size.name);
            benchmark::RegisterBenchmark(name.c_str(),
                                         [c, fused, back](benchmark::State& state) {
                                           back ? backward(state, c, fused) : forward(state, c, fused);
                                         })
                ->UseRealTime()
                ->Unit(benchmark::kMicrosecond);
          }
  }
}

}  // namespace
}  // namespace siamese

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  siamese::add_benchmarks();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
