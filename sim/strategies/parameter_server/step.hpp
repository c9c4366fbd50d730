// The clocks of one worker within a step: the time until which its host has issued work, and the
// time until which its device has computed. walk() advances both through the segments of a step
// (system.hpp) by plain arithmetic, without simulated events. Worker and Books read them. Private
// to sim/strategies/parameter_server.
#pragma once

#include <cstddef>
#include <vector>

#include "strategies/parameter_server/system.hpp"

namespace lockstep {

// A segment of a worker's step, or an idle time between segments, for an observer. They are listed
// in the order of the device's clock. Times are seconds since the step began.
struct PsDone {
  const PsSegment* segment = nullptr;       // null = the device was idle
  WaitCause cause = WaitCause::host_bound;  // of the idle time
  DeviceSlowdown slowness;
  double issued = 0;          // time at which the host began to issue the segment
  double start = 0, end = 0;  // on the device
};

// A counter of the time in which at least one of several activities runs.
struct Activity {
  int running = 0;                // number of activities that run at present
  double since = 0, seconds = 0;  // time of the last change, and the sum at that time

  // Seconds before `now` in which at least one activity ran.
  double until(double now) const { return seconds + (running > 0 ? now - since : 0); }
  // `by` more activities run, or fewer if negative.
  void change(int by, double now) {
    seconds = until(now);
    since = now;
    running += by;
  }
};

// Compute time that a worker lost to servers on its core. `at` is in seconds since the step began,
// excluding earlier losses.
struct PsLoss {
  double at = 0, seconds = 0;
};

// A worker's step: its clocks, in seconds since the step began, and the parts of its time.
struct PsStep {
  explicit PsStep(int id) : worker(id) {}
  // Starts a step at `now`. The vectors keep their memory.
  void clear(double now);
  // Plays the segments from ready.size() to `end` (excluded). The device computes a segment as soon
  // as the device is free, the host has issued the segment, and the segment's input has arrived
  // (the rule of QueuedWork).
  void walk(const PsSystem& system, std::size_t end);

  int worker;
  int number = -1;     // of the present or the last step; -1 = no step has begun
  double started = 0;  // seconds of simulated time
  StepSplit parts;     // data_loading, forward, backward, optimizer, copies, host_bound
  double host = 0;     // time at which the host has issued all played segments
  double device = 0;   // time at which the device has computed all played segments
  // Seconds of `device` in which forward waited for weights. They are not in `parts`, because Books
  // counts them as exposed communication or waiting.
  double gated = 0;
  std::vector<double> ready;  // by played segment: the device's clock at its end
  std::vector<PsDone> done;   // for PsWatch; empty if there is no observer
  std::vector<PsLoss> losses;

 private:
  // Waits for the loader and copies a micro-batch to the device.
  void take_input(const PsSystem& system);
  void load(const PsSystem& system, double seconds, double until);

  // Simulated times at which the loader has the next micro-batch, and at which the latest was
  // taken.
  double input_ready_ = 0, input_taken_ = 0;
  int inputs_ = 0;  // number of micro-batches requested from the loader
};

}  // namespace lockstep
