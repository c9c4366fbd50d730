// Horovod's fusion of gradients: a background thread of every rank checks at most once a cycle
// which gradients are ready, and reduces them together (fact H129). Used if `fusion` is horovod.
#pragma once

#include <vector>

#include "strategies/ddp/buckets.hpp"
#include "strategies/strategy.hpp"

namespace lockstep {

// The end of a layer's backward in seconds after the forward pass began: `issued` by the host,
// `done` by the device. Valid for devices with constant speed.
struct GradientReady {
  double issued = 0, done = 0;
};
std::vector<GradientReady> gradients_ready(const Job& job);

// Seconds in which the ranks agree on tensors that are ready everywhere.
double negotiation_seconds(const Job& job);

// Tensors in the order of arrival, as the thread fuses them. A cycle takes the tensors with issued
// backward, and cuts them before `threshold` is exceeded; a larger tensor goes alone. The thread
// waits for the data of each bucket before it looks again (operations.cc: PerformOperation).
// `Bucket::delay` is the delay of a bucket by cycle and negotiation.
std::vector<Bucket> fuse_when_ready(const std::vector<GradientTensor>& tensors,
                                    const std::vector<GradientReady>& ready,
                                    const HorovodFusion& fusion, double negotiation);

}  // namespace lockstep
