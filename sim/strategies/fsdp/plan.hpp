// The plan of an FSDP step, made before the simulation: prices of all transfers, kernels and host
// work around a unit, and the passes with their hooks. FsdpHooks (hooks.hpp) issues it.
#pragma once

#include <vector>

#include "strategies/common/training_loop.hpp"
#include "strategies/fsdp/order.hpp"

namespace lockstep {

// Exchanges of a unit under ZeRO++ on several nodes: the all-gather of the secondary shards in
// backward, and the exchange of gradients within nodes and then between them.
struct FsdpNodePlan {
  PricedTransfer gather;                   // of secondary shards, over a node
  QueuedWork before_gather, after_gather;  // copy-in and copy-out
  QueuedWork kept;                         // copies the secondary shard out of the gathered unit
  PricedTransfer reduce_in_node, reduce_between;  // all-to-all exchanges of int4
  QueuedWork summed_in_node;                      // sum between the exchanges, quantized again
};

// The prices of one unit.
struct FsdpUnitPlan {
  PricedTransfer gather, reduce;      // over the shard group; no time without sharding
  PricedTransfer replicate;           // all-reduce over the replicas (NO_SHARD: over all ranks)
  PricedTransfer to_device, to_host;  // offload: the shard, and its gradients (fact 44)
  // Seconds between NVMe and the host: reading the shard before its copy, writing its gradients
  // after theirs (fact H116).
  double read = 0, write = 0;
  QueuedWork before_gather;       // cast or copy-in of the shard (facts 29, 43, 48)
  QueuedWork after_gather;        // FSDP2's copy-out, on the compute stream (fact 48)
  QueuedWork join_gradients;      // into the collective's input, on the compute stream (40, 52)
  QueuedWork accumulate;          // add to unsharded gradients kept by no_sync (facts 45, 58)
  QueuedWork before_reduce;       // FSDP1: cast and pre-division (fact 39)
  QueuedWork after_reduce;        // post-division, cast (fact 39)
  QueuedWork after_later_reduce;  // after_reduce and addition to the shard's gradient (fact 45)
  FsdpNodePlan nodes;
  bool expert = false;       // sharded over the ranks that hold the same experts
  double unshard_views = 0;  // host seconds to make the parameters views of the gathered tensor
  double reshard_views = 0;  // host seconds to make them views of the shard
};

// Everything that the hooks of one part of the model issue.
struct FsdpPlan {
  FsdpLayout layout;
  std::vector<FsdpUnitPlan> units;  // by unit of the layout
  HookPlaces hooks;
  Passes passes;
  UpdateWork update;
  double hook_seconds = 0;  // host seconds of one hook
  PricedTransfer scalar;    // all-reduce of one number over the shard group

  const FsdpUnitPlan& unit(int u) const { return units[static_cast<std::size_t>(u)]; }
};

// The plan of one part of the model. Throws ConfigError if the offload needs NVMe drives that the
// platform does not describe.
FsdpPlan fsdp_plan(TrainingContext& context, const FsdpLayout& layout);

}  // namespace lockstep
