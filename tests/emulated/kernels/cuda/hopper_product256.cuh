// Stands in for src/kernels/cuda/hopper_product256.cuh: hopper.cuh has products of every width here.
#pragma once
