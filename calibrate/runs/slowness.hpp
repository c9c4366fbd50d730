// Makes a rank slow on purpose: after t seconds of compute it sleeps (factor - 1) t, so that its
// device work takes `factor` times as long. Real training uses it for the stragglers of a scenario.
#pragma once

#include <cstdint>
#include <functional>

#include "runs/train_options.hpp"

namespace lockstep {

// The factor of `rank` in `step`: the rank's constant factor times 1 + jitter times an exponential
// draw, with the simulator's key.
double slowness_factor(const TrainOptions& options, int rank, int step);

class Slowness {
 public:
  // `finish_device_work` waits until the device has finished all issued work, after which the
  // compute time is known. Only slowed steps call it.
  explicit Slowness(std::function<void()> finish_device_work)
      : finish_device_work_(std::move(finish_device_work)) {}

  void begin(double factor);  // the compute of a step begins
  void pause();               // compute is interrupted: sleeps all owed time
  // Must be called often during compute. Sleeps as soon as enough time is owed.
  void pay();
  void forgive();  // the time since the last pay() was a wait, which is not slowed
  bool active() const { return factor_ > 1; }

 private:
  std::function<void()> finish_device_work_;
  double factor_ = 1;
  double since_ = 0;
  double owed_ = 0;
};

}  // namespace lockstep
