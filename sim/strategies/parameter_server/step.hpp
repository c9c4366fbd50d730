// The clocks of one worker: what its host has issued and its device done since a step began.
// Private to the room.
#pragma once

#include <cstddef>
#include <vector>

#include "strategies/parameter_server/system.hpp"

namespace lockstep {

// A part of a worker's step, in the order in which its device did it; seconds since the step began.
struct PsDone {
  const PsSegment* segment = nullptr;  // null: it stood still
  WaitCause cause = WaitCause::host_bound;
  DeviceSlowdown slowness;
  double issued = 0;  // when the host began to
  double start = 0, end = 0;
};

// Time in which at least one of something runs.
struct Activity {
  int running = 0;
  double since = 0, seconds = 0;

  double until(double now) const { return seconds + (running > 0 ? now - since : 0); }
  void change(int by, double now) {
    seconds = until(now);
    since = now;
    running += by;
  }
};

// Seconds that servers on the worker's core took from its compute, at this age of the step without them.
struct PsLoss {
  double at = 0, seconds = 0;
};

struct PsStep {
  explicit PsStep(int id) : worker(id) {}
  // Its vectors keep their memory for the next step.
  void clear(double now);
  // Through the segments from ready.size() up to `end`, as a lane of a RankGroup does.
  void walk(const PsSystem& system, std::size_t end);

  int worker;
  int number = -1;            // of the step under way, or of the last one
  double started = 0;         // seconds of simulated time
  StepSplit parts;            // data_loading, forward, backward, optimizer, copies, host_bound
  double host = 0;            // has issued everything so far
  double device = 0;          // has done it
  double gated = 0;           // of it, without weights to compute with: no part
  std::vector<double> ready;  // end of each segment
  // Parts for PsWatch; empty = nobody listens.
  std::vector<PsDone> done;
  std::vector<PsLoss> losses;

 private:
  void take_input(const PsSystem& system);
  void load(const PsSystem& system, double seconds, double until);

  double input_ready_ = 0, input_taken_ = 0;  // next micro-batch and latest; simulated time
  int inputs_ = 0;                            // asked for
};

}  // namespace lockstep
