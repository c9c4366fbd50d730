// Keeps a device busy while the host issues work to be timed. Events on an idle stream would tell
// when the host got round to issuing, not how long the device works. On CPUs there is no queue and
// nothing is done. Includes ATen.
#pragma once

#include <ATen/ATen.h>

namespace lockstep {

class HeldQueue {
 public:
  explicit HeldQueue(at::Device device);

  // Matrix products of at least this much device time go into the current stream. A stream holds a
  // limited number of launches: a host that issues more than that waits, and is ahead by so many.
  void hold(double seconds);

 private:
  at::Tensor matrix_, product_;  // undefined on CPUs
  double seconds_each_ = 0;
};

}  // namespace lockstep
