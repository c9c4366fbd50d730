// DDP's communication hooks, which replace the plain all-reduce of a bucket by compressed messages
// (facts 20, 21, H123, H124, H125). plan.cpp prices the reduction of each bucket with plan_hook();
// ddp.cpp issues it. docs/strategies.md has a table of all hooks.
//
//   step 0           step 1           ...          after / decode
//   work, transfer | work, transfer | ...        | work
#pragma once

#include <functional>
#include <vector>

#include "costs/compute.hpp"
#include "strategies/common/network.hpp"
#include "strategies/ddp/buckets.hpp"

namespace lockstep {

// Device work, and then a collective that sends its result. Each step needs the result of the
// previous step's collective.
struct HookStep {
  QueuedWork before;
  PricedTransfer transfer;
};

// The reduction of one bucket.
struct HookPlan {
  std::vector<HookStep> steps;
  // True: all steps except the first run on backward's stream, after backward is over. False: they
  // run beside backward.
  bool serial = false;
  QueuedWork after;  // work after the last collective, beside backward
  // Measured on a CPU: work after a collective runs on the thread that carried it. This thread then
  // starts the next collective, and shares a core with backward.
  bool in_callbacks = false;
  QueuedWork decode;  // work after all collectives, on backward's stream: reads gathered messages
};

// The ranks and the device that a hook runs on, and their prices.
struct HookPrices {
  const ComputeCosts& costs;
  int ranks = 1;            // that reduce the bucket
  int multiprocessors = 1;  // of the device
  bool cpu = false;         // ranks compute on CPUs
  // Price of a collective over these ranks; `bytes` as in collective_cost().
  std::function<PricedTransfer(Collective, double bytes)> collective;
};

// The reduction of `bucket` by options.comm_hook. `tensors`: all gradients, into which
// Bucket::tensors are indices.
HookPlan plan_hook(const DdpOptions& options, const Bucket& bucket,
                   const std::vector<GradientTensor>& tensors, const HookPrices& prices);

// Device memory that a hook needs, in multiples of the gradients that it compresses.
struct HookMemory {
  double kept = 0;  // from step to step: unsent values (error feedback)
  // While one bucket travels: its own message, and the messages of all ranks if they are gathered.
  double in_flight = 0;
};
// `element_bytes`: of a gradient.
HookMemory hook_memory(const CommHook& hook, int ranks, double element_bytes);

}  // namespace lockstep
