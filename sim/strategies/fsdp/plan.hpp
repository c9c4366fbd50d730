// What FSDP will do in one step of a job, before time runs: who shards with whom, the units with
// everything their hooks cost, and the order of hooks and layers.
#pragma once

#include <vector>

#include "strategies/common/training_loop.hpp"
#include "strategies/fsdp/units.hpp"

namespace lockstep {

// The options after PyTorch's own rules (fact 28), the process groups and the units' sizes.
struct FsdpLayout {
  FsdpOptions options;  // sharding resolved: no_shard on one rank, no hybrid with one replica
  int shard_ranks = 1;  // ranks that share one copy of the model
  int replicas = 1;     // copies
  CommGroup shard_group, replica_group;
  int shard_bytes = 4, gather_bytes = 4, reduce_bytes = 4;  // per element
  std::vector<FsdpUnit> units;
  std::vector<UnitLayout> layouts;  // of each unit

  bool sharded() const { return shard_ranks > 1; }
  // Parameters stay gathered between forward and backward.
  bool keeps_parameters() const {
    return options.sharding == Sharding::shard_grad_op ||
           options.sharding == Sharding::hybrid_shard_zero2;
  }
  // What the optimizer of one rank sees.
  double optimizer_elements() const;
  int optimizer_tensors() const;
};

// Throws ConfigError when shard_group does not fit the ranks or the nodes.
FsdpLayout fsdp_layout(const Job& job, const FsdpOptions& options);

// Kernels that copy or cast: seconds of the device, and of the host that launches them.
struct SideKernels {
  double device = 0, host = 0;
  Provenance provenance = Provenance::modelled;  // of the device's
};

struct FsdpUnitPlan {
  PricedTransfer gather, reduce;      // over the shard group; zero bytes without sharding
  PricedTransfer replicate;           // all-reduce over the replicas (NO_SHARD: over everybody)
  PricedTransfer to_device, to_host;  // CPU offload (fact 44)
  SideKernels before_gather;          // cast or copy-in of the shard (facts 29, 43, 48)
  QueuedWork after_gather;            // FSDP2's copy-out, on the compute stream (fact 48)
  QueuedWork join_gradients;          // into the collective's input, on the compute stream (40, 52)
  QueuedWork accumulate;              // add to unsharded gradients kept by no_sync (facts 45, 58)
  SideKernels before_reduce;          // FSDP1: cast and pre-division (fact 39)
  SideKernels after_reduce;           // post-division, cast (fact 39)
  SideKernels after_later_reduce;     // the same with addition to the shard's gradient (fact 45)
  double unshard_views = 0;           // host seconds for setting up the parameters' views
  double reshard_views = 0;
  bool frees_after_forward = false;
};

struct FsdpPlan {
  FsdpLayout layout;
  std::vector<FsdpUnitPlan> units;
  Passes passes;
  std::vector<int> next;  // unit whose forward begins after this one's; -1 = none
  std::vector<int>
      previous;             // unit whose forward ends before this one's: backward's next; -1 = none
  double hook_seconds = 0;  // host time of one hook
  bool one_thread = false;  // ranks on CPUs
  PricedTransfer scalar;    // all-reduce of one number over the shard group
};

FsdpPlan fsdp_plan(TrainingStage& stage, const FsdpLayout& layout);

}  // namespace lockstep
