// DDP's gradient buckets: the gradients of each bucket, and the order in which buckets are reduced
// (facts 1-8). Used to plan a step (plan.hpp).
#pragma once

#include <vector>

#include "strategies/common/gradients.hpp"
#include "strategies/ddp/options.hpp"

namespace lockstep {

struct Bucket {
  std::vector<int> tensors;  // indices into the list of gradient tensors
  double elements = 0;
  double bytes = 0;
  int ready_after = 0;  // backward of this layer completes the bucket
  bool expert = false;  // its gradients are all of experts, or none is
  double delay = 0;  // seconds from its last gradient, or from the bucket before, to its all-reduce
};

// Tensors in the order in which backward completes their gradients.
std::vector<int> arrival_order(const std::vector<GradientTensor>& tensors);

// Cuts `order` into buckets: a bucket is closed once it holds at least its cap, so it may exceed it
// by one tensor, and no tensor is split. The first cap is for the first bucket, the last for all
// that follow. Element sizes do not mix (fact 5), nor do experts with others (fact H5).
std::vector<Bucket> cut_buckets(const std::vector<GradientTensor>& tensors,
                                const std::vector<int>& order, const std::vector<double>& caps);

struct BucketPlan {
  std::vector<Bucket> first;  // in the first step, in launch order
  std::vector<Bucket> later;  // from then on
};
// The buckets of PyTorch's DDP.
BucketPlan plan_buckets(const std::vector<GradientTensor>& tensors, const DdpOptions& options);

}  // namespace lockstep
