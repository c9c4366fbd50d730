// Measurements of real training (`lockstep train`). They have the names of the predicted values, so
// that both can be compared. Plain data in seconds and bytes.
#pragma once

#include <optional>

#include "results/record.hpp"

namespace lockstep {

// Mean seconds of the phases of a step, by the clock of a rank. The phases end when the loss, the
// gradients and the new parameters are available. Communication and waiting are included.
struct PhaseSeconds {
  double forward = 0, backward = 0, optimizer = 0;
};

// Peaks of the rank with the largest peaks, in bytes.
struct PeakMemory {
  double allocated = 0;
  double reserved = 0;  // 0 = the device has no caching allocator
};

// Staleness, with the value of every update.
struct MeasuredStaleness : Staleness {
  std::vector<std::int64_t> each_update;  // every update that the server applied, in order
};

// Measurements of one real training.
struct RealRun {
  std::string strategy;
  int ranks = 1;
  std::int64_t global_batch = 0, micro_batch = 0;
  std::string precision;
  // Seconds of one optimizer step: the median, for asynchronous workers the mean.
  double step_seconds = 0;
  Interval step_interval;  // 5th to 95th percentile of the steps
  double samples_per_second = 0;
  std::vector<double> each_step_seconds;  // every measured step, in order
  PhaseSeconds phases;
  // Mean CPU seconds of a step's forward and backward, by rank; only for workers of a parameter
  // server on CPUs, otherwise empty.
  std::vector<double> rank_compute_seconds;
  PeakMemory memory;
  std::vector<double> losses;           // loss of every step, mean of the ranks; may be NaN
  std::optional<double> test_accuracy;  // share of the test set that is classified correctly
  std::optional<MeasuredStaleness> staleness;
  std::vector<std::string> notes;
};

// The predicted seconds that compare with a RealRun's `step_seconds`: the median, because it
// ignores disturbances of the machine and jitter. With asynchronous workers it is the mean, because
// their steps come in bunches, so that a median says nothing.
double step_beside(const Prediction& predicted);

// The runs of one call of `train`.
struct RealRecord : RecordHead {
  std::vector<RealRun> runs;
};

}  // namespace lockstep
