// CUDA resources that free themselves, checked calls, and the timing of all probes. Only the probes
// include it; other code includes device_probes.hpp.
#pragma once

#include <cuda_runtime_api.h>

#include <string>
#include <vector>

#include "cuda/device_probes.hpp"

namespace lockstep::cuda {

[[noreturn]] void fail(const char* call, const char* file, int line, const std::string& message);
void check(cudaError_t status, const char* call, const char* file, int line);
#define LOCKSTEP_CUDA(call) ::lockstep::cuda::check((call), #call, __FILE__, __LINE__)

struct Stream {
  Stream() { LOCKSTEP_CUDA(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking)); }
  ~Stream() { cudaStreamDestroy(handle); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  void wait() const { LOCKSTEP_CUDA(cudaStreamSynchronize(handle)); }
  cudaStream_t handle = nullptr;
};

struct Event {
  Event() { LOCKSTEP_CUDA(cudaEventCreate(&handle)); }
  ~Event() { cudaEventDestroy(handle); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(const Stream& stream) { LOCKSTEP_CUDA(cudaEventRecord(handle, stream.handle)); }
  cudaEvent_t handle = nullptr;
};
double seconds_between(const Event& first, const Event& second);  // both must have completed

// Device memory. fill_random() fills it with pseudo-random values of magnitude 1 to 2, because
// products of zeros need less power and so run faster than real ones.
class DeviceBuffer {
 public:
  explicit DeviceBuffer(std::size_t bytes);  // throws OutOfDeviceMemory
  ~DeviceBuffer() { cudaFree(data_); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  void* at(std::size_t offset) const { return static_cast<char*>(data_) + offset; }
  std::size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};
void fill_random(const DeviceBuffer& buffer, MathMode math);
std::size_t element_bytes(MathMode math);

// Rounds up to 256 bytes, so that operands are aligned as by an allocator.
inline std::size_t aligned(std::size_t bytes) {
  return (bytes + 255) / 256 * 256;
}

// Calls `sample`, which returns seconds, until the confidence interval of the median is narrow.
// Throws Interrupted after Ctrl-C.
Figure measure(const ProbeOptions& options, const std::function<double()>& sample);

// Device seconds of one launch(i), where i counts up. Two events enclose a series of launches,
// which waits behind a kernel that holds the stream until all launches are queued.
Figure measure_launches(const ProbeOptions& options, const Stream& stream,
                        const std::function<void(int)>& launch);

// Runs `body` for one size; on NotPossible it prints a progress line with the reason.
void unless_not_possible(const ProbeOptions& options, const std::string& what,
                         const std::function<void()>& body);

}  // namespace lockstep::cuda
