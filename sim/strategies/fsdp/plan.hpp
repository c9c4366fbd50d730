// What everything around a unit costs, and the hooks among the layers.
#pragma once

#include <vector>

#include "strategies/common/training_loop.hpp"
#include "strategies/fsdp/order.hpp"

namespace lockstep {

// ZeRO++ on several nodes: the secondary shards' gather in backward, and gradients that are exchanged within
// nodes and then between them.
struct FsdpNodePlan {
  PricedTransfer gather;  // over a node
  QueuedWork before_gather, after_gather;
  QueuedWork kept;  // the secondary shard, copied out of what forward gathered
  PricedTransfer reduce_in_node, reduce_between;
  QueuedWork summed_in_node;  // and quantised again
};

struct FsdpUnitPlan {
  PricedTransfer gather, reduce;      // over the shard group; zero bytes without sharding
  PricedTransfer replicate;           // all-reduce over the replicas (NO_SHARD: over everybody)
  PricedTransfer to_device, to_host;  // CPU offload (fact 44)
  // Seconds between NVMe and the host: of the shard before it is copied, of its gradients afterwards (fact
  // H116).
  double read = 0, write = 0;
  QueuedWork before_gather;       // cast or copy-in of the shard (facts 29, 43, 48)
  QueuedWork after_gather;        // FSDP2's copy-out, on the compute stream (fact 48)
  QueuedWork join_gradients;      // into the collective's input, on the compute stream (40, 52)
  QueuedWork accumulate;          // add to unsharded gradients kept by no_sync (facts 45, 58)
  QueuedWork before_reduce;       // FSDP1: cast and pre-division (fact 39)
  QueuedWork after_reduce;        // post-division, cast (fact 39)
  QueuedWork after_later_reduce;  // the same with addition to the shard's gradient (fact 45)
  FsdpNodePlan nodes;
  bool expert = false;       // over the ranks that hold the same experts
  double unshard_views = 0;  // host seconds for setting up the parameters' views
  double reshard_views = 0;
};

struct FsdpPlan {
  FsdpLayout layout;
  std::vector<FsdpUnitPlan> units;
  HookPlaces hooks;
  Passes passes;
  UpdateWork update;
  double hook_seconds = 0;  // host time of one hook
  PricedTransfer scalar;    // all-reduce of one number over the shard group

  const FsdpUnitPlan& unit(int u) const { return units[static_cast<std::size_t>(u)]; }
};

FsdpPlan fsdp_plan(TrainingContext& context, const FsdpLayout& layout);

}  // namespace lockstep
