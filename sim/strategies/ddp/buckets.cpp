// Fills buckets as PyTorch's compute_bucket_assignment_by_size does (reducer.cpp, fact 5). Before
// the second step, the reducer rebuilds its buckets in the order in which gradients arrived (fact
// 3). In the simulated order of arrival, the last layer comes first, and the gradients within a
// layer arrive in reverse definition order.
#include "strategies/ddp/buckets.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

namespace lockstep {

std::vector<int> arrival_order(const std::vector<GradientTensor>& tensors) {
  std::vector<int> order(tensors.size());
  std::iota(order.begin(), order.end(), 0);
  std::reverse(order.begin(), order.end());
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return tensors[static_cast<std::size_t>(a)].layer > tensors[static_cast<std::size_t>(b)].layer;
  });
  return order;
}

std::vector<Bucket> cut_buckets(const std::vector<GradientTensor>& tensors,
                                const std::vector<int>& order, const std::vector<double>& caps) {
  // The open bucket of one kind of gradients, and the index of the bucket's cap.
  struct Open {
    Bucket bucket;
    std::size_t cap = 0;
  };
  std::vector<Bucket> closed;
  // By element size, and by whether the gradients are of experts.
  std::map<std::pair<int, bool>, Open> open;
  for (const int index : order) {
    const GradientTensor& tensor = tensors[static_cast<std::size_t>(index)];
    Open& current = open[{tensor.element_bytes, tensor.expert}];
    Bucket& bucket = current.bucket;
    if (bucket.tensors.empty()) bucket.ready_after = tensor.layer;
    bucket.expert = tensor.expert;
    bucket.tensors.push_back(index);
    bucket.elements += tensor.elements;
    bucket.bytes += tensor.elements * tensor.element_bytes;
    bucket.ready_after = std::min(bucket.ready_after, tensor.layer);
    if (bucket.bytes >= caps[current.cap]) {
      closed.push_back(std::move(bucket));
      bucket = {};
      current.cap = std::min(current.cap + 1, caps.size() - 1);
    }
  }
  for (auto& [kind, rest] : open) {
    if (!rest.bucket.tensors.empty()) closed.push_back(std::move(rest.bucket));
  }
  return closed;
}

BucketPlan plan_buckets(const std::vector<GradientTensor>& tensors, const DdpOptions& options) {
  const std::vector<double> caps{options.first_bucket_bytes, options.bucket_bytes};
  if (options.find_unused_parameters && !options.static_graph) {
    // These buckets are never rebuilt. They are cut in definition order, and the last one is
    // launched first (fact 4).
    std::vector<int> definition(tensors.size());
    std::iota(definition.begin(), definition.end(), 0);
    std::vector<Bucket> buckets = cut_buckets(tensors, definition, caps);
    std::reverse(buckets.begin(), buckets.end());
    return {buckets, buckets};
  }
  // Facts 2 and 3: the first step has one bucket for all gradients. The later steps have buckets in
  // the order of arrival.
  const std::vector<int> order = arrival_order(tensors);
  const double no_cap = std::numeric_limits<double>::infinity();
  return {cut_buckets(tensors, order, {no_cap}), cut_buckets(tensors, order, caps)};
}

}  // namespace lockstep
