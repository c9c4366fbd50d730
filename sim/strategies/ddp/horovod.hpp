// Horovod's fusion of gradients: on every rank a background thread checks, at most once in each
// cycle, which gradients are ready, and reduces them together (fact H129). ddp_buckets() uses it if
// `fusion: horovod` is set; the buckets then depend on the nominal times of backward.
#pragma once

#include <vector>

#include "strategies/ddp/buckets.hpp"
#include "strategies/strategy.hpp"

namespace lockstep {

// The times at which a layer's backward ends, in seconds after the forward pass began: `issued` on
// the host, `done` on the device. They are nominal: stragglers and collectives do not change them.
struct GradientReady {
  double issued = 0, done = 0;
};
// The end of each layer's backward, by layer.
std::vector<GradientReady> gradients_ready(const Job& job);

// Seconds that the ranks need to agree on the tensors that are ready on every rank: the all-reduce
// of the response cache's bits.
double negotiation_seconds(const Job& job);

// The buckets of a step, as the thread fuses tensors in the order of their arrival. A cycle takes
// the tensors whose backward has been issued. A bucket is closed at the end of a cycle, before it
// would exceed `threshold`, and before a tensor of another element size or before a change between
// experts and other parameters. A tensor above `threshold` is a bucket of its own. The thread waits
// for the data of each bucket before it looks for ready tensors again (operations.cc:
// PerformOperation). `ready` is by layer; `negotiation` is in seconds. Sets Bucket::delay to the
// delay by cycle and negotiation.
std::vector<Bucket> fuse_when_ready(const std::vector<GradientTensor>& tensors,
                                    const std::vector<GradientReady>& ready,
                                    const HorovodFusion& fusion, double negotiation);

}  // namespace lockstep
