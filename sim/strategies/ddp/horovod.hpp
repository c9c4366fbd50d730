// Horovod's fusion of gradients: on every rank a background thread checks at most once a cycle
// which gradients are ready, and reduces them together (fact H129). ddp_buckets() uses it with
// `fusion: horovod`; the buckets then depend on the nominal times of backward.
#pragma once

#include <vector>

#include "strategies/ddp/buckets.hpp"
#include "strategies/strategy.hpp"

namespace lockstep {

// The end of a layer's backward in seconds after the forward pass began: `issued` by the host,
// `done` by the device. Nominal: stragglers and collectives do not change it.
struct GradientReady {
  double issued = 0, done = 0;
};
// The ends of all layers' backward, by layer.
std::vector<GradientReady> gradients_ready(const Job& job);

// Seconds in which the ranks agree on the tensors that are ready on every rank: an all-reduce of
// the cache's bits.
double negotiation_seconds(const Job& job);

// The buckets of a step, as the thread fuses tensors in the order of their arrival. A cycle takes
// the tensors whose backward has been issued, and cuts them before `threshold` is exceeded; a
// larger tensor goes alone. The thread waits for the data of each bucket before it looks again
// (operations.cc: PerformOperation). `ready`: by layer. `negotiation`: seconds. Sets Bucket::delay
// to the delay by cycle and negotiation.
std::vector<Bucket> fuse_when_ready(const std::vector<GradientTensor>& tensors,
                                    const std::vector<GradientReady>& ready,
                                    const HorovodFusion& fusion, double negotiation);

}  // namespace lockstep
