// Makes a rank slow on purpose: after t seconds of compute it sleeps (factor - 1) t, so that all
// its device work takes `factor` times as long. Used to train with the stragglers of a scenario.
#pragma once

#include <cstdint>
#include <functional>

#include "runs/train_options.hpp"

namespace lockstep {

// The factor of `rank` in `step`: its own, times 1 + Exp(jitter) drawn as the simulator draws it.
double slowness_factor(const TrainOptions& options, int rank, int step);

class Slowness {
 public:
  // `finish_device_work` waits until the device has finished all issued work, because only then the
  // compute time is known. Called by slowed steps alone.
  explicit Slowness(std::function<void()> finish_device_work)
      : finish_device_work_(std::move(finish_device_work)) {}

  void begin(double factor);  // computing begins now
  void pause();               // computing ends (for a while): sleeps the owed time
  // Called often while computing; sleeps once enough is owed.
  void pay();
  void forgive();  // the time since the last pay() was waiting, not computing
  bool active() const { return factor_ > 1; }

 private:
  std::function<void()> finish_device_work_;
  double factor_ = 1;
  double since_ = 0;
  double owed_ = 0;
};

}  // namespace lockstep
