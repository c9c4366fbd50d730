// DDP's gradient buckets: the gradients in each bucket, and the order in which buckets are reduced
// (facts 1-8). plan.cpp makes them before the simulation. Time, memory and `export` use the same
// buckets.
//
// Example with caps of 1 and 25 MiB. Gradients are listed in the order of their arrival:
//   gradients     | 0.5 | 0.7 |  12  |  20  |  3  |   ...     (MiB)
//   buckets       |  0: 1.2   |    1: 32    |  2: 3 ...       (closed once the cap is reached)
#pragma once

#include <vector>

#include "strategies/common/gradients.hpp"
#include "strategies/ddp/options.hpp"

namespace lockstep {

// Gradients that one all-reduce sums.
struct Bucket {
  std::vector<int> tensors;  // indices into the list of gradient tensors
  double elements = 0;
  double bytes = 0;
  int ready_after = 0;  // index of the layer whose backward completes the bucket's last gradient
  bool expert = false;  // whether the bucket holds gradients of experts only; false = it holds none
  // Only for Horovod: seconds from the bucket's last gradient, or from the previous bucket's launch
  // if that is later, to the all-reduce. 0 in PyTorch's DDP.
  double delay = 0;
};

// Indices of tensors in the order in which backward completes their gradients: the last layer comes
// first.
std::vector<int> arrival_order(const std::vector<GradientTensor>& tensors);

// Cuts the tensors, in the order `order`, into buckets; the result is in the order in which buckets
// are closed. A bucket is closed when it holds at least its cap, so it exceeds the cap by less than
// one tensor, and no tensor is split; buckets below their cap are closed at the end. Tensors of
// different element sizes never share a bucket (fact 5), and experts never share one with other
// parameters (fact H5). In each of these kinds, the first cap is for the first bucket, and so on;
// the last cap is for all further buckets.
std::vector<Bucket> cut_buckets(const std::vector<GradientTensor>& tensors,
                                const std::vector<int>& order, const std::vector<double>& caps);

// The buckets of a run. Each list is in the order of launch.
struct BucketPlan {
  std::vector<Bucket> first;  // in the first step
  std::vector<Bucket> later;  // in all further steps
};
// The buckets of PyTorch's DDP.
BucketPlan plan_buckets(const std::vector<GradientTensor>& tensors, const DdpOptions& options);

}  // namespace lockstep
