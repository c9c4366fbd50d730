// The kernels of the CUDA probes (kernels.hpp). The file includes neither LibTorch nor headers of
// the simulator, so that it compiles in seconds.
#include "kernels.hpp"

namespace lockstep::cuda {
namespace {

constexpr int threads = 512;

__global__ void empty_kernel() {}

__global__ void spin_kernel(long long cycles) {
  const long long start = clock64();
  while (clock64() - start < cycles) {
  }
}

__device__ std::size_t first_index() {
  return blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x;
}
__device__ std::size_t stride() {
  return gridDim.x * static_cast<std::size_t>(blockDim.x);
}

__global__ void copy_kernel(float4* to, const float4* from, std::size_t count) {
  for (std::size_t i = first_index(); i < count; i += stride()) to[i] = from[i];
}

// Writes the sum to `sink` only if it has a value that never occurs, so that the compiler cannot
// remove the reads.
__global__ void read_kernel(const float4* from, std::size_t count, float* sink) {
  float sum = 0;
  for (std::size_t i = first_index(); i < count; i += stride()) {
    const float4 value = from[i];
    sum += value.x + value.y + value.z + value.w;
  }
  if (sum == -1.2345f) *sink = sum;
}

__global__ void write_kernel(float4* to, std::size_t count) {
  for (std::size_t i = first_index(); i < count; i += stride())
    to[i] = make_float4(1.f, 2.f, 3.f, 4.f);
}

__global__ void add_kernel(float4* to, const float4* a, const float4* b, std::size_t count,
                           int repeats) {
  for (int repeat = 0; repeat < repeats; ++repeat) {
    for (std::size_t i = first_index(); i < count; i += stride()) {
      const float4 x = a[i], y = b[i];
      to[i] = make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
    }
  }
}

// Number of blocks: up to 4096, which is several for each multiprocessor of present devices, but
// few enough that each thread has several elements of a large array.
unsigned blocks_for(std::size_t count) {
  const std::size_t blocks = (count + threads - 1) / threads;
  return static_cast<unsigned>(blocks < 1 ? 1 : blocks > 4096 ? 4096 : blocks);
}

}  // namespace

void launch_empty(cudaStream_t stream) {
  empty_kernel<<<1, 1, 0, stream>>>();
}

void launch_spin(cudaStream_t stream, long long cycles) {
  spin_kernel<<<1, 1, 0, stream>>>(cycles);
}

void launch_copy(cudaStream_t stream, void* to, const void* from, std::size_t bytes) {
  const std::size_t count = bytes / sizeof(float4);
  copy_kernel<<<blocks_for(count), threads, 0, stream>>>(static_cast<float4*>(to),
                                                         static_cast<const float4*>(from), count);
}

void launch_read(cudaStream_t stream, const void* from, std::size_t bytes, float* sink) {
  const std::size_t count = bytes / sizeof(float4);
  read_kernel<<<blocks_for(count), threads, 0, stream>>>(static_cast<const float4*>(from), count,
                                                         sink);
}

void launch_write(cudaStream_t stream, void* to, std::size_t bytes) {
  const std::size_t count = bytes / sizeof(float4);
  write_kernel<<<blocks_for(count), threads, 0, stream>>>(static_cast<float4*>(to), count);
}

void launch_add(cudaStream_t stream, float* to, const float* a, const float* b, std::size_t bytes,
                int blocks, int repeats) {
  add_kernel<<<static_cast<unsigned>(blocks), threads, 0, stream>>>(
      reinterpret_cast<float4*>(to), reinterpret_cast<const float4*>(a),
      reinterpret_cast<const float4*>(b), bytes / sizeof(float4), repeats);
}

}  // namespace lockstep::cuda
