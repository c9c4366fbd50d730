// The plan of an FSDP step, made before the simulation: the costs of all transfers, kernels and
// host work around a unit, and the passes with their hooks. FsdpHooks (hooks.hpp) issues the plan.
#pragma once

#include <vector>

#include "strategies/common/training_loop.hpp"
#include "strategies/fsdp/order.hpp"

namespace lockstep {

// Exchanges of a unit with ZeRO++ on several nodes: the all-gather of the secondary shards in
// backward, and the exchange of gradients, first within nodes and then between nodes.
struct FsdpNodePlan {
  PricedTransfer gather;                   // of secondary shards, within a node
  QueuedWork before_gather, after_gather;  // copy-in and copy-out
  QueuedWork kept;                         // copy of the secondary shard out of the gathered unit
  PricedTransfer reduce_in_node, reduce_between;  // all-to-all exchanges of int4
  QueuedWork summed_in_node;  // sum between the two exchanges; the sum is then quantised again
};

// The costs of one unit. docs/facts.md has the facts, and docs/facts-meshes.md has fact H116.
struct FsdpUnitPlan {
  PricedTransfer gather, reduce;      // over the shard group; take no time without sharding
  PricedTransfer replicate;           // all-reduce over the replicas (NO_SHARD: all ranks)
  PricedTransfer to_device, to_host;  // offload: copies of the shard and of its gradients (fact 44)
  // Seconds to read the shard from NVMe, before it is copied to the device, and to write its
  // gradients to NVMe, after they were copied to the host (fact H116).
  double read = 0, write = 0;
  QueuedWork before_gather;  // cast or copy-in of the shard (facts 29, 43, 48)
  QueuedWork after_gather;   // FSDP2's copy-out, on the compute stream (fact 48)
  // Copy into the collective's input, on the compute stream (facts 40, 52).
  QueuedWork join_gradients;
  QueuedWork accumulate;  // addition to unsharded gradients that no_sync kept (facts 45, 58)
  // FSDP1: cast and pre-division (fact 39). FSDP2: pre-division in fp16 (fact 56).
  QueuedWork before_reduce;
  QueuedWork after_reduce;  // post-division, cast (fact 39)
  // For the step's second and later reductions: after_reduce, and addition to the shard's gradient
  // (fact 45).
  QueuedWork after_later_reduce;
  FsdpNodePlan nodes;
  bool expert = false;       // whether it is sharded over the ranks that hold the same experts
  double unshard_views = 0;  // host seconds to make the parameters views of the gathered tensor
  double reshard_views = 0;  // host seconds to make the parameters views of the shard
};

// Everything that the hooks of one part of the model issue. A pipeline's stage has one part or
// several; without a pipeline the part is the whole model.
struct FsdpPlan {
  FsdpLayout layout;
  std::vector<FsdpUnitPlan> units;  // by unit of the layout
  HookPlaces hooks;
  Passes passes;
  UpdateWork update;        // set by fsdp.cpp, not by fsdp_plan()
  double hook_seconds = 0;  // host seconds of one hook
  PricedTransfer scalar;    // all-reduce of one number over the shard group; none without sharding

  const FsdpUnitPlan& unit(int u) const { return units[static_cast<std::size_t>(u)]; }
};

// The plan of one part of the model. Throws ConfigError if the offload needs NVMe drives and the
// platform does not describe any.
FsdpPlan fsdp_plan(TrainingContext& context, const FsdpLayout& layout);

}  // namespace lockstep
