// Implements the clock with the host's steady clock on CPUs, and with c10::Event on GPUs. Reading
// the times waits for the last event.
#include "torch/clock.hpp"

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/cuda.h>
#include <torch/version.h>

#include <chrono>
#include <ctime>
#include <stdexcept>

namespace lockstep {

// c10::Event has elapsed times since LibTorch 2.4. With older releases, only CPUs are supported
// here.
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
#define LOCKSTEP_DEVICE_EVENTS 1
#else
#define LOCKSTEP_DEVICE_EVENTS 0
#endif

double host_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double thread_cpu_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

struct Clock::Events {
#if LOCKSTEP_DEVICE_EVENTS
  explicit Events(at::Device d) : guard(d.type()), device(d) {}
  void mark() {
    marks.emplace_back(device.type(), c10::EventFlag::BACKEND_DEFAULT);
    marks.back().record(guard.getStream(device));
  }
  std::vector<double> seconds() {
    marks.back().synchronize();
    std::vector<double> result;
    for (const c10::Event& event : marks) {
      result.push_back(marks.front().elapsedTime(event) * 1e-3);  // milliseconds
    }
    return result;
  }
  c10::impl::VirtualGuardImpl guard;
  at::Device device;
  std::vector<c10::Event> marks;
#else
  void mark() {}
  std::vector<double> seconds() {
    return {};
  }
#endif
};

void synchronize(at::Device device) {
  if (!device.is_cpu()) torch::cuda::synchronize(device.index());
}

Clock::Clock(at::Device device) {
  if (device.is_cpu()) return;
#if LOCKSTEP_DEVICE_EVENTS
  events_ = std::make_unique<Events>(device);
#else
  throw std::runtime_error("measuring on a GPU needs LibTorch 2.4 or newer");
#endif
}

Clock::~Clock() = default;

void Clock::start() {
  host_.clear();
#if LOCKSTEP_DEVICE_EVENTS
  if (events_) events_->marks.clear();
#endif
  mark();
}

void Clock::mark() {
  if (events_) {
    events_->mark();
  } else {
    host_.push_back(host_seconds());
  }
}

std::vector<double> Clock::seconds() {
  if (events_) return events_->seconds();
  std::vector<double> result;
  for (const double moment : host_) result.push_back(moment - host_.front());
  return result;
}

}  // namespace lockstep
