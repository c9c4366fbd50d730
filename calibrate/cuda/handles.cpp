// Implements checked CUDA calls and the timing of all probes. For each sample the stream's queue is
// filled with a series of launches between two events. Samples are taken until the stopping rule of
// launch/stopping.hpp is met.
#include "cuda/handles.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "cuda/kernels.hpp"
#include "cuda/sweeps.hpp"
#include "launch/stopping.hpp"

namespace lockstep::cuda {

namespace {

const char* base_name(const char* path) {
  const char* slash = std::strrchr(path, '/');
  return slash ? slash + 1 : path;
}

}  // namespace

void fail(const char* call, const char* file, int line, const std::string& message) {
  throw DeviceError(fmt::format("{} ({}:{}): {}", call, base_name(file), line, message));
}

void check(cudaError_t status, const char* call, const char* file, int line) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();  // otherwise the next launch would report this error
  if (status == cudaErrorMemoryAllocation)
    throw OutOfDeviceMemory(
        fmt::format("{} ({}:{}): {}", call, base_name(file), line, cudaGetErrorString(status)));
  fail(call, file, line, cudaGetErrorString(status));
}

double seconds_between(const Event& first, const Event& second) {
  float milliseconds = 0;
  LOCKSTEP_CUDA(cudaEventElapsedTime(&milliseconds, first.handle, second.handle));
  return milliseconds * 1e-3;
}

DeviceBuffer::DeviceBuffer(std::size_t bytes) : bytes_(bytes) {
  LOCKSTEP_CUDA(cudaMalloc(&data_, bytes));
}

std::size_t element_bytes(MathMode math) {
  return math == MathMode::fp16 || math == MathMode::bf16 ? 2 : 4;
}

void fill_random(const DeviceBuffer& buffer, MathMode math) {
  // The buffer gets a repeated pattern of 4 MiB. Its values have random signs and mantissas, and an
  // exponent for magnitudes from 1 to 2.
  std::vector<std::uint32_t> pattern((4 << 20) / 4 + 1021);
  std::uint64_t state = 0x9e3779b97f4a7c15ull;
  const auto draw = [&] {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return static_cast<std::uint32_t>(state >> 16);
  };
  for (std::uint32_t& word : pattern) {
    const std::uint32_t bits = draw();
    if (math == MathMode::fp16) {
      word = (bits & 0x83ff83ffu) | 0x3c003c00u;
    } else if (math == MathMode::bf16) {
      word = (bits & 0x807f807fu) | 0x3f803f80u;
    } else {
      word = (bits & 0x807fffffu) | 0x3f800000u;
    }
  }
  const std::size_t step = pattern.size() * 4;
  for (std::size_t at = 0; at < buffer.bytes(); at += step)
    LOCKSTEP_CUDA(cudaMemcpy(buffer.at(at), pattern.data(), std::min(step, buffer.bytes() - at),
                             cudaMemcpyHostToDevice));
}

Figure measure(const ProbeOptions& options, const std::function<double()>& sample) {
  const StoppingRule rule{.relative_width = 0.02,
                          .minimum = options.quick ? 6 : 10,
                          .maximum = options.quick ? 12 : 60};
  std::vector<double> samples;
  while (!enough(samples, rule)) {
    if (options.stop()) throw Interrupted();
    samples.push_back(sample());
  }
  return figure_of(samples);
}

Figure measure_launches(const ProbeOptions& options, const Stream& stream,
                        const std::function<void(int)>& launch) {
  using Clock = std::chrono::steady_clock;
  int index = 0;
  Event begin, end;
  // Returns the host seconds to queue `count` launches, and the device seconds of one.
  const auto run = [&](int count, double hold_seconds) {
    launch_spin(stream.handle, static_cast<long long>(hold_seconds * 2e9));
    const auto start = Clock::now();
    begin.record(stream);
    for (int i = 0; i < count; ++i) launch(index++);
    end.record(stream);
    LOCKSTEP_CUDA(cudaGetLastError());
    const double host = std::chrono::duration<double>(Clock::now() - start).count();
    stream.wait();
    return std::pair{host, seconds_between(begin, end) / count};
  };
  run(2, 0);  // loads the kernels and chooses algorithms
  const auto [host, device] = run(4, 0);
  // The driver's queue has room for about a thousand launches; the count must stay well below.
  const int count = launches_per_sample(device, 2e-3, 200);
  const double hold = std::min(2 * host / 4 * count + 20e-6, 50e-3);
  return measure(options, [&] { return run(count, hold).second; });
}

void unless_not_possible(const ProbeOptions& options, const std::string& what,
                         const std::function<void()>& body) {
  try {
    body();
  } catch (const NotPossible& error) {
    options.progress(fmt::format("{} left out: {}", what, error.what()));
  }
}

}  // namespace lockstep::cuda
