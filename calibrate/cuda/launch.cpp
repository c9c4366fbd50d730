// Measures the cost of kernel launches: the host's time, the device's time from one empty kernel to
// the next, the round trip, and the resolution of events. The series of launches stay within the
// driver's queue, so that the host never waits.
#include <chrono>

#include "cuda/handles.hpp"
#include "cuda/kernels.hpp"

namespace lockstep::cuda {

void probe_launch(const ProbeOptions& options, Measurements& out) {
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  LOCKSTEP_CUDA(cudaSetDevice(options.device));
  const Stream stream;
  options.progress("kernel launches");
  launch_empty(stream.handle);
  stream.wait();

  // While a kernel holds the stream, a launch takes only the host's time. 200 launches fit into the
  // queue.
  constexpr int launches = 200;
  out.launch.enqueue = measure(options, [&] {
    launch_spin(stream.handle, 4'000'000);  // about 2 ms
    const auto start = Clock::now();
    for (int i = 0; i < launches; ++i) launch_empty(stream.handle);
    const double seconds = since(start) / launches;
    stream.wait();
    return seconds;
  });
  out.launch.back_to_back =
      measure_launches(options, stream, [&](int) { launch_empty(stream.handle); });
  out.launch.round_trip = measure(options, [&] {
    const auto start = Clock::now();
    for (int i = 0; i < 20; ++i) {
      launch_empty(stream.handle);
      stream.wait();
    }
    return since(start) / 20;
  });
  Event first, second;
  out.launch.event_resolution = measure(options, [&] {
    launch_spin(stream.handle, 100'000);
    first.record(stream);
    second.record(stream);
    stream.wait();
    return seconds_between(first, second);
  });
  LOCKSTEP_CUDA(cudaGetLastError());
}

}  // namespace lockstep::cuda
