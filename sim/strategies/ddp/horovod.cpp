// Plays Horovod's background thread (horovod/common/operations.cc) over the nominal times of
// backward: sleep, check, agree with the other ranks, fuse, launch. The result is a list of buckets
// with delays, which the training loop reduces like PyTorch's buckets.
#include "strategies/ddp/horovod.hpp"

#include <algorithm>
#include <utility>

#include "costs/collective.hpp"
#include "strategies/common/mesh_groups.hpp"

namespace lockstep {

namespace {

const GradientTensor& at(const std::vector<GradientTensor>& tensors, int index) {
  return tensors[static_cast<std::size_t>(index)];
}

void add(Bucket& bucket, int index, const GradientTensor& tensor) {
  bucket.tensors.push_back(index);
  bucket.elements += tensor.elements;
  bucket.bytes += tensor.elements * tensor.element_bytes;
  bucket.ready_after = tensor.layer;
  bucket.expert = tensor.expert;
}

// Whether a tensor may join an open bucket.
bool fits(const Bucket& bucket, const GradientTensor& last, const GradientTensor& tensor,
          double threshold) {
  return last.element_bytes == tensor.element_bytes && last.expert == tensor.expert &&
         bucket.bytes + tensor.elements * tensor.element_bytes <= threshold;
}

}  // namespace

// Appends the layers' work in order. Host and span of the sum are the two times of a layer.
std::vector<GradientReady> gradients_ready(const Job& job) {
  const std::size_t layers = job.step->layers.size();
  std::vector<LayerCost> costs;
  QueuedWork done;
  for (std::size_t i = 0; i < layers; ++i) {
    costs.push_back(job.costs->layer(*job.step, i));
    done = append(done, costs.back().forward);
  }
  std::vector<GradientReady> ready(layers);
  for (std::size_t i = layers; i-- > 0;) {
    done = append(done, costs[i].backward);
    ready[i] = {done.host, done.span};
  }
  return ready;
}

double negotiation_seconds(const Job& job) {
  constexpr double bits_of_cache = 1024;  // HOROVOD_CACHE_CAPACITY [H129]
  return collective_cost(job.machine, gradient_group(job), Collective::all_reduce,
                         bits_of_cache / 8)
      .seconds();
}

std::vector<Bucket> fuse_when_ready(const std::vector<GradientTensor>& tensors,
                                    const std::vector<GradientReady>& ready,
                                    const HorovodFusion& fusion, double negotiation) {
  const std::vector<int> order = arrival_order(tensors);
  const auto ready_of = [&](std::size_t i) {
    return ready[static_cast<std::size_t>(at(tensors, order[i]).layer)];
  };
  std::vector<Bucket> buckets;
  double launched = 0;  // launch time of the latest bucket, at which the thread is free again
  double begun = -fusion.cycle;  // time at which the latest cycle began
  for (std::size_t next = 0; next < order.size();) {
    // A thread that sleeps notices a tensor half a cycle late on average.
    begun = std::max({launched, begun + fusion.cycle, ready_of(next).issued + fusion.cycle / 2});
    const double agreed = begun + negotiation;
    // Whether tensor i had been issued when the cycle began.
    const auto seen = [&](std::size_t i) {
      return i < order.size() && ready_of(i).issued <= begun;
    };
    while (seen(next)) {
      Bucket bucket;
      do {
        add(bucket, order[next], at(tensors, order[next]));
      } while (seen(++next) && fits(bucket, at(tensors, order[next - 1]), at(tensors, order[next]),
                                    fusion.threshold));
      // The bucket is launched when its data are complete, the thread is free, and the ranks agree.
      const double done = ready_of(next - 1).done, before = std::max(done, launched);
      launched = std::max(agreed, before);
      bucket.delay = launched - before;
      buckets.push_back(std::move(bucket));
    }
  }
  return buckets;
}

}  // namespace lockstep
