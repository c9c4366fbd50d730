// The clocks of one worker within a step: the time until which its host has issued work, and the
// time until which its device has done it. walk() advances both through the segments of a step by
// plain arithmetic, without simulated events. Worker and Books read them. Private to the room.
#pragma once

#include <cstddef>
#include <vector>

#include "strategies/parameter_server/system.hpp"

namespace lockstep {

// One stretch of a worker's step for an observer, in the order in which the device passed them: a
// segment or a standstill. Times are seconds since the step began.
struct PsDone {
  const PsSegment* segment = nullptr;       // null = the device stood still
  WaitCause cause = WaitCause::host_bound;  // of a standstill
  DeviceSlowdown slowness;
  double issued = 0;          // when the host began to issue the segment
  double start = 0, end = 0;  // on the device
};

// A counter of the time in which at least one of several activities runs.
struct Activity {
  int running = 0;                // activities that run at present
  double since = 0, seconds = 0;  // time of the last change, and the sum at that time

  // Seconds up to `now` in which at least one ran.
  double until(double now) const { return seconds + (running > 0 ? now - since : 0); }
  // `by` more activities run (negative: fewer).
  void change(int by, double now) {
    seconds = until(now);
    since = now;
    running += by;
  }
};

// Compute time that a worker lost to servers on its core. `at`: seconds since the step began,
// without earlier losses.
struct PsLoss {
  double at = 0, seconds = 0;
};

// A worker's step: its clocks in seconds since the step began, and the parts of its time.
struct PsStep {
  explicit PsStep(int id) : worker(id) {}
  // Starts a step at `now`; the vectors keep their memory.
  void clear(double now);
  // Plays the segments from ready.size() up to `end`, exclusive: the device does each segment as
  // soon as the device is free, the host has issued it and its input is there (the rule of
  // QueuedWork).
  void walk(const PsSystem& system, std::size_t end);

  int worker;
  int number = -1;     // of the step under way, or of the last one; -1 = none has begun
  double started = 0;  // seconds of simulated time
  StepSplit parts;     // data_loading, forward, backward, optimizer, copies, host_bound
  double host = 0;     // the host has issued all played segments
  double device = 0;   // the device has done all played segments
  // Seconds of `device` in which forward waited for weights. They are not in `parts`: Books books
  // them as exposed communication or waiting.
  double gated = 0;
  std::vector<double> ready;  // by played segment: the device's clock at its end
  std::vector<PsDone> done;   // for PsWatch; empty if there is no observer
  std::vector<PsLoss> losses;

 private:
  // Waits for the loader and copies a micro-batch to the device.
  void take_input(const PsSystem& system);
  void load(const PsSystem& system, double seconds, double until);

  // Simulated time at which the loader has the next micro-batch, and at which the latest was taken.
  double input_ready_ = 0, input_taken_ = 0;
  int inputs_ = 0;  // micro-batches that the loader was asked for
};

}  // namespace lockstep
