// Choosing a device, and what this program and its libraries are.
#pragma once

#include <c10/core/Device.h>

#include <string>
#include <vector>

namespace siamese {

/// "auto": the GPU where a driver and LibTorch's CUDA part are, else the CPU. "cuda" throws Error saying what is
/// missing. Opens libtorch_cuda and libsiamese_cuda on first use: the executable itself needs neither.
at::Device select_device(const std::string& name);

/// On a GPU: flash attention's deterministic backward pass and fixed product algorithms, or the fastest.
void set_deterministic(bool on);

struct Versions {
  std::string revision, libtorch, cuda, cudnn;
};
Versions versions();
/// Lines for `siamese --version`.
std::string version_text();

}  // namespace siamese
