// Horovod's fusion of gradients: a background thread of every rank looks at most once a cycle which gradients
// are ready, and reduces them together (fact H129).
#pragma once

#include <vector>

#include "strategies/ddp/buckets.hpp"
#include "strategies/strategy.hpp"

namespace lockstep {

// When backward of a layer has ended, in seconds after the forward pass began: `issued` by the host, `done` by
// the device. On devices that do not vary.
struct GradientReady {
  double issued = 0, done = 0;
};
std::vector<GradientReady> gradients_ready(const Job& job);

// Seconds in which the ranks agree which tensors are ready everywhere.
double negotiation_seconds(const Job& job);

// Tensors in the order of arrival, as the thread fuses them. A cycle takes the tensors whose backward is
// issued, and cuts them where `threshold` would be passed; a larger tensor goes alone. The thread waits for
// the data of each bucket before it looks again (operations.cc: PerformOperation). `Bucket::delay` is what
// the cycle and the negotiation hold up a bucket.
std::vector<Bucket> fuse_when_ready(const std::vector<GradientTensor>& tensors,
                                    const std::vector<GradientReady>& ready,
                                    const HorovodFusion& fusion, double negotiation);

}  // namespace lockstep
