// Device memory under FSDP: facts 38-41, 43-45, 49, 50, 53, 58, 62 of docs/strategies.md.
#include "strategies/fsdp/fsdp.hpp"

namespace lockstep {

MemoryPlan fsdp_memory_plan(const Job& job, const FsdpLayout& layout) {
  const FsdpOptions& options = layout.options;
  MemoryPlan plan;
  plan.micro_batches = job.accumulation;
  ShardedPlan& sharded = plan.sharded.emplace();
  sharded.runtime = options.version == 2 ? ShardedRuntime::fsdp2 : ShardedRuntime::fsdp1;
  sharded.shard_bytes = layout.shard_bytes;
  sharded.gather_bytes = layout.gather_bytes;
  sharded.reduce_bytes = layout.reduce_bytes;
  sharded.cpu_offload = options.cpu_offload;
  sharded.prefetch =
      options.backward_prefetch == BackwardPrefetch::pre    ? ShardedPrefetch::before_compute
      : options.backward_prefetch == BackwardPrefetch::post ? ShardedPrefetch::after_reshard
                                                            : ShardedPrefetch::none;
  sharded.forward_prefetch = options.version == 1 && options.forward_prefetch;
  sharded.rate_limit = options.version == 1 && options.limit_all_gathers ? 2 : 0;
  sharded.sync_every_micro_batch = options.sync_every_micro_batch;
  for (std::size_t i = 0; i < layout.units.size(); ++i) {
    const FsdpUnit& unit = layout.units[i];
    sharded.units.push_back({.layers = unit.layers,
                             .elements = layout.layouts[i].elements,
                             .shard_elements = layout.layouts[i].shard,
                             .root = unit.root,
                             .keep_after_forward = unit.root || layout.keeps_parameters()});
  }
  if (!options.cpu_offload) {
    plan.optimizer = {optimizer_state_bytes(job.optimizer, job.step.precision),
                      optimizer_temporary_bytes(job.optimizer, job.step.precision),
                      optimizer_largest_temporary_bytes(job.optimizer, job.step.precision)};
  }
  if (layout.sharded()) {
    plan.communication_bytes += communicator_bytes(job.machine, layout.shard_group);
  }
  if (layout.replicas > 1) {
    plan.communication_bytes += communicator_bytes(job.machine, layout.replica_group);
  }
  return plan;
}

}  // namespace lockstep
