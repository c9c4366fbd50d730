// DDP's communication hooks, which replace the plain all-reduce of a bucket by compressed messages
// (facts 20, 21, H123, H124, H125). plan.cpp computes the cost of each bucket's reduction with
// plan_hook(); ddp.cpp issues the reduction. docs/ddp.md has the table of hooks.
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

// Device work, followed by a collective that sends its result. Each step needs the result of the
// previous step's collective.
struct HookStep {
  QueuedWork before;
  PricedTransfer transfer;
};

// The reduction of one bucket.
struct HookPlan {
  std::vector<HookStep> steps;
  // True: all steps but the first run on backward's stream, after backward has ended. False: they
  // run beside backward.
  bool serial = false;
  QueuedWork after;  // work after the last collective; runs beside backward
  // Set when measured CPU times of the hook are used: work after a collective runs on the
  // communication thread. This thread starts the next collective only afterwards, and shares a core
  // with backward.
  bool in_callbacks = false;
  // Work on backward's stream, after backward and all collectives, such as decoding gathered
  // messages.
  QueuedWork decode;
};

// The ranks and the device on which a hook runs, and the costs of their work and messages.
struct HookPrices {
  const ComputeCosts& costs;
  int ranks = 1;            // number of ranks that reduce the bucket
  int multiprocessors = 1;  // number of the device's multiprocessors
  bool cpu = false;         // whether the ranks compute on CPUs
  // Returns the cost of a collective over these ranks; `bytes` is that of collective_cost().
  std::function<PricedTransfer(Collective, double bytes)> collective;
};

// The reduction of `bucket` by options.comm_hook. `tensors` are all gradients; Bucket::tensors has
// indices into this list.
HookPlan plan_hook(const DdpOptions& options, const Bucket& bucket,
                   const std::vector<GradientTensor>& tensors, const HookPrices& prices);

// Device memory that a hook needs, in multiples of the gradients that it compresses.
struct HookMemory {
  double kept = 0;  // held from step to step: unsent values (error feedback)
  // Held while a bucket travels: its own message, and the messages of all ranks if they are
  // gathered.
  double in_flight = 0;
};
// `element_bytes` is the size of one gradient element.
HookMemory hook_memory(const CommHook& hook, int ranks, double element_bytes);

}  // namespace lockstep
