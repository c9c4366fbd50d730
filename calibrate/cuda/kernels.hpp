// Functions that launch the kernels of the probes (kernels.cu). Only kernels.cu needs the CUDA
// compiler.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace lockstep::cuda {

void launch_empty(cudaStream_t stream);
// Keeps the stream busy for about `cycles` cycles of a multiprocessor, so that the host can fill
// the queue.
void launch_spin(cudaStream_t stream, long long cycles);

// These three use the whole device.
// REQUIRES: `bytes` is a multiple of 16.
void launch_copy(cudaStream_t stream, void* to, const void* from, std::size_t bytes);
void launch_read(cudaStream_t stream, const void* from, std::size_t bytes, float* sink);
void launch_write(cudaStream_t stream, void* to, std::size_t bytes);

// Computes `to` = `a` + `b` `repeats` times, with only `blocks` blocks, like the reduction of a
// ring all-reduce.
void launch_add(cudaStream_t stream, float* to, const float* a, const float* b, std::size_t bytes,
                int blocks, int repeats);

}  // namespace lockstep::cuda
