// The clocks of one worker: issued work of its host and completed work of its device since the step
// began. Worker and Books read them. Private to the room.
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

// Time in which at least one of several activities runs.
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

// Seconds of compute that a worker lost to servers on its core. The age of the step excludes these
// seconds.
struct PsLoss {
  double at = 0, seconds = 0;
};

struct PsStep {
  explicit PsStep(int id) : worker(id) {}
  // Starts a step; vectors keep their memory.
  void clear(double now);
  // Advances from segment ready.size() to `end`, as a lane of a RankGroup would.
  void walk(const PsSystem& system, std::size_t end);

  int worker;
  int number = -1;            // of the step under way, or of the last one
  double started = 0;         // seconds of simulated time
  StepSplit parts;            // data_loading, forward, backward, optimizer, copies, host_bound
  double host = 0;            // has issued everything so far
  double device = 0;          // has done it
  double gated = 0;           // of it, without weights to compute with: no part
  std::vector<double> ready;  // end of each segment
  // Parts for PsWatch; empty if there is no observer.
  std::vector<PsDone> done;
  std::vector<PsLoss> losses;

 private:
  void take_input(const PsSystem& system);
  void load(const PsSystem& system, double seconds, double until);

  double input_ready_ = 0, input_taken_ = 0;  // next micro-batch and latest; simulated time
  int inputs_ = 0;                            // asked for
};

}  // namespace lockstep
