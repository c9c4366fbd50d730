// DDP's communication hooks, which replace the plain all-reduce of a bucket (facts 20, 21, H123,
// H124, H125). Used to plan and price a bucket's reduction.
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
  // All steps except the first run on backward's stream, after backward is over.
  bool serial = false;
  QueuedWork after;  // once the last collective has ended, beside backward
  // Measured on a CPU: work after a collective runs on the thread that carried it. This thread then
  // starts the next collective, and shares a core with backward.
  bool in_callbacks = false;
  QueuedWork decode;  // then, on backward's stream: what the gathered messages say
};

// The place of a bucket's reduction, and its prices.
struct HookPrices {
  const ComputeCosts& costs;
  int ranks = 1;            // that reduce the bucket
  int multiprocessors = 1;  // of the device
  bool cpu = false;         // ranks compute on CPUs
  std::function<PricedTransfer(Collective, double bytes)> collective;
};

HookPlan plan_hook(const DdpOptions& options, const Bucket& bucket,
                   const std::vector<GradientTensor>& tensors, const HookPrices& prices);

// Device memory that a hook needs, in multiples of the gradients that it compresses.
struct HookMemory {
  double kept = 0;  // from step to step: what was not sent
  double in_flight =
      0;  // of one bucket: its own message, and those of all ranks where they are gathered
};
HookMemory hook_memory(const CommHook& hook, int ranks, double element_bytes);

}  // namespace lockstep
