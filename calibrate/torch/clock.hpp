// Measures moments of a training step: with the host's steady clock if a CPU computes, with events
// on the current stream if a GPU does. Includes ATen.
#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <vector>

namespace lockstep {

// Seconds on the host's steady clock.
double host_seconds();

// CPU time of the calling thread.
double thread_cpu_seconds();

// Waits until the device has done all work issued so far. Does nothing on a CPU.
void synchronize(at::Device device);

class Clock {
 public:
  explicit Clock(at::Device device);
  ~Clock();
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;

  void start();                   // discards earlier marks, and sets the first one
  void mark();                    // sets a mark in the device's order of work
  std::vector<double> seconds();  // of each mark after the first; waits for the device

 private:
  struct Events;
  std::vector<double> host_;
  std::unique_ptr<Events> events_;
};

}  // namespace lockstep
