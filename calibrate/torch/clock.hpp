// Moments of a training step on any device: the host's steady clock where the host computes, events
// on the current stream where a GPU does. Includes ATen.
#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <vector>

namespace lockstep {

// Seconds on the host's steady clock.
double host_seconds();

// CPU time of the calling thread.
double thread_cpu_seconds();

// Waits until the device has done everything issued so far; nothing to do on a CPU.
void synchronize(at::Device device);

class Clock {
 public:
  explicit Clock(at::Device device);
  ~Clock();
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;

  void start();                   // forgets earlier marks; the first mark is now
  void mark();                    // one more moment, in the device's order of work
  std::vector<double> seconds();  // of all marks since the first; waits for the device

 private:
  struct Events;
  std::vector<double> host_;
  std::unique_ptr<Events> events_;
};

}  // namespace lockstep
