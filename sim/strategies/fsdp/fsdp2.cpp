// fully_shard (FSDP2) on its streams: all-gather copy-in, reduce-scatter, all-reduce (hybrid), and
// the compute stream [47]. The host never blocks; streams wait for each other [55]. Numbers in
// brackets are facts of docs/facts.md.
//
//   forward   copy-in -> all-gather -> compute waits -> copy-out -> compute
//   backward  copy-out -> prefetch of the next unit -> compute -> copy-in -> reduce-scatter
#include "strategies/fsdp/hooks.hpp"

namespace lockstep {

Fsdp2Hooks::Fsdp2Hooks(TrainingContext& context, FsdpPlan&& plan)
    : FsdpHooks(context, std::move(plan)),
      copy_in_(add_stream("all-gather copy-in")),
      reduce_(add_stream("reduce-scatter")),
      all_reduce_(add_stream("all-reduce")) {
  const ShardGroups& nodes = plan_.layout.node_groups;
  if (!nodes.hybrid()) return;
  const std::vector<RankGroups> axes = axes_of(context.job.mesh, nodes);
  in_node_ = &context.stage.communicator("shards of a node", axes[0]);
  between_nodes_ = &context.stage.communicator("shards between nodes", axes[1]);
}

// The first all-gather waits for the compute stream, on which the optimizer has updated the shards.
void Fsdp2Hooks::begin_forward(const MicroBatch& batch) {
  FsdpHooks::begin_forward(batch);
  gate_ = last_copied_out_ = ranks_.record();
}

Program Fsdp2Hooks::pre_forward(int unit) {
  ranks_.host(plan_.hook_seconds);
  prepare(order_.pre_forward(unit));
  co_return;
}

void Fsdp2Hooks::post_forward(int unit) {
  ranks_.host(plan_.hook_seconds);
  for (const FsdpAction& action : order_.post_forward(unit)) reshard(action.unit);
}

Program Fsdp2Hooks::pre_backward(int unit) {
  ranks_.host(plan_.hook_seconds);
  // The output of forward's last all-gather is free after its copy-out [49].
  gate_ = last_copied_out_;
  prepare(order_.pre_backward(unit));
  co_return;
}

Program Fsdp2Hooks::post_backward(int unit) {
  ranks_.host(plan_.hook_seconds);
  for (const FsdpAction& action : order_.post_backward(unit)) {
    if (action.deed == FsdpDeed::accumulate) context_.copies(plan_.unit(unit).accumulate);
    if (action.deed == FsdpDeed::reshard) reshard(unit);
    if (action.deed == FsdpDeed::reduce) reduce(unit);
  }
  co_return;
}

Event Fsdp2Hooks::await_reductions() {
  ranks_.wait(last_collective_);
  ranks_.wait(last_reduction_);
  last_reduce_scatter_ = {};
  return last_reduction_;
}

Program Fsdp2Hooks::finish(const FsdpAction& action) {
  if (action.deed == FsdpDeed::reshard) reshard(action.unit);
  if (action.deed == FsdpDeed::reduce) reduce(action.unit);
  co_return;
}

// Gathers units, and copies out the units that compute next.
void Fsdp2Hooks::prepare(FsdpOrder::Actions actions) {
  for (const FsdpAction& action : actions) {
    if (action.deed == FsdpDeed::unshard) {
      unshard(action.unit, action.backward);
    } else {
      use(action.unit, action.backward);
    }
  }
}

// The shard is copied to its place in the output, and the output is gathered in place [48]. With
// ZeRO++, backward gathers the secondary shards within the node.
void Fsdp2Hooks::unshard(int u, bool backward) {
  const FsdpUnitPlan& unit = plan_.unit(u);
  Event shard = gate_;
  shard = offloaded_.to_device(copy_in_, unit, shard);
  const bool secondary = backward && unit.nodes.gather.seconds > 0;
  const QueuedWork& before = secondary ? unit.nodes.before_gather : unit.before_gather;
  if (before.busy > 0) shard = context_.run(copy_in_, before, shard);
  ready(u) = secondary                ? context_.collective(*in_node_, unit.nodes.gather, shard)
             : plan_.layout.sharded() ? over_shards(unit, unit.gather, shard)
                                      : shard;
}

// Copies the output into the parameters on the compute stream. The next all-gather needs memory for
// its output, and at most two outputs exist. Therefore it starts only after a copy-out: in forward
// the previous unit's, in backward this unit's [49].
void Fsdp2Hooks::use(int u, bool backward) {
  if (!backward) gate_ = last_copied_out_;
  ranks_.wait(ready(u));
  ranks_.host(plan_.unit(u).unshard_views);
  const FsdpNodePlan& nodes = plan_.unit(u).nodes;
  context_.copies(backward && nodes.gather.seconds > 0 ? nodes.after_gather
                                                       : plan_.unit(u).after_gather);
  if (!backward) context_.copies(nodes.kept);
  last_copied_out_ = ranks_.record();
  if (backward) gate_ = last_copied_out_;
}

void Fsdp2Hooks::reshard(int unit) {
  ranks_.host(plan_.unit(unit).reshard_views);
}

// A copy-in on the compute stream, the reduce-scatter, the hybrid all-reduce, then division and
// cast.
void Fsdp2Hooks::reduce(int u) {
  const FsdpUnitPlan& unit = plan_.unit(u);
  // At most one reduce-scatter is in flight: the compute stream waits for the previous one [52].
  ranks_.wait(last_reduce_scatter_);
  context_.copies(unit.join_gradients);
  StreamId stream = reduce_;
  Event done = context_.run(stream, unit.before_reduce, ranks_.record());
  if (plan_.layout.sharded()) {
    const FsdpNodePlan& nodes = unit.nodes;
    if (nodes.reduce_between.seconds > 0) {
      done = context_.collective(*in_node_, nodes.reduce_in_node, done);
      done = context_.run(stream, nodes.summed_in_node, done);
      done = context_.collective(*between_nodes_, nodes.reduce_between, done);
    } else {
      done = over_shards(unit, unit.reduce, done);
    }
    last_reduce_scatter_ = last_collective_ = done;
    done = ranks_.enqueue(stream, 0, done, false);
    if (plan_.layout.groups.replicas > 1) stream = all_reduce_;
  }
  if (plan_.layout.groups.replicas > 1) {
    done = last_collective_ = over_replicas(unit.replicate, done);
  }
  done = context_.run(stream, after_reduce(unit), done);
  last_reduction_ = offloaded_.gradients_to_host(stream, unit, done);
}

}  // namespace lockstep
