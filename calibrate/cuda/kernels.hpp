// The kernels of the probes, behind functions that launch them. Include it in probes, which then
// need no CUDA compiler.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace lockstep::cuda {

void launch_empty(cudaStream_t stream);
// Keeps the stream busy for about `cycles` multiprocessor clocks, so that the host can fill it.
void launch_spin(cudaStream_t stream, long long cycles);

// Whole device; `bytes` a multiple of 16.
void launch_copy(cudaStream_t stream, void* to, const void* from, std::size_t bytes);
void launch_read(cudaStream_t stream, const void* from, std::size_t bytes, float* sink);
void launch_write(cudaStream_t stream, void* to, std::size_t bytes);

// `to` = `a` + `b`, `repeats` times, by `blocks` blocks only, as a ring's reduction does.
void launch_add(cudaStream_t stream, float* to, const float* a, const float* b, std::size_t bytes,
                int blocks, int repeats);

}  // namespace lockstep::cuda
