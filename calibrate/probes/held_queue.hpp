// Keeps a device busy while the host issues work that is to be timed. On an idle stream, the time
// between two events would include the host's time to issue. On CPUs, which have no queue, it does
// nothing. Includes ATen.
#pragma once

#include <ATen/ATen.h>

namespace lockstep {

class HeldQueue {
 public:
  explicit HeldQueue(at::Device device);

  // Issues matrix products of at least `seconds` of device time to the current stream. A stream has
  // room for a limited number of launches, so a host that issues more waits for the device.
  void hold(double seconds);

 private:
  at::Tensor matrix_, product_;  // undefined on CPUs
  double seconds_each_ = 0;
};

}  // namespace lockstep
