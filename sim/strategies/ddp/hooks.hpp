// DDP's communication hooks: what replaces the plain all-reduce of a bucket (facts 20, 21).
#pragma once

#include <functional>
#include <vector>

#include "costs/compute.hpp"
#include "strategies/common/network.hpp"
#include "strategies/ddp/buckets.hpp"

namespace lockstep {

// Device work, then a collective. Stages depend on each other.
struct HookStep {
  QueuedWork before;
  PricedTransfer transfer;
};

struct HookPlan {
  std::vector<HookStep> steps;
  QueuedWork after;  // once the last collective has ended
};

HookPlan plan_hook(const DdpOptions& options, const Bucket& bucket,
                   const std::vector<GradientTensor>& tensors, const ComputeCosts& costs,
                   const std::function<PricedTransfer(double bytes)>& all_reduce);

}  // namespace lockstep
