// fully_shard on its streams. The host never blocks (its programs never wait); streams wait for each
// other. Numbers in brackets: facts of docs/strategies.md.
#include "strategies/fsdp/runtime.hpp"

namespace lockstep {

Fsdp2Runtime::Fsdp2Runtime(const FsdpStage& stage)
    : stage_(stage),
      copy_in_(stage.add_stream("all-gather copy-in")),
      reduce_(stage.add_stream("reduce-scatter")),
      all_reduce_(stage.add_stream("all-reduce")),
      order_(stage.plan.layout, stage.plan.hooks),
      ready_(stage.plan.units.size()) {}

void Fsdp2Runtime::begin_forward(bool first_micro_batch, bool reduces) {
  order_.begin_forward(first_micro_batch, reduces);
  first_micro_batch_ = first_micro_batch;
  reduces_ = reduces;
  gate_ = last_copied_out_ = stage_.ranks.record();
}

Program Fsdp2Runtime::pre_forward(int unit) {
  stage_.ranks.host(stage_.plan.hook_seconds);
  prepare(order_.pre_forward(unit));
  co_return;
}

void Fsdp2Runtime::post_forward(int unit) {
  stage_.ranks.host(stage_.plan.hook_seconds);
  for (const FsdpAction& action : order_.post_forward(unit)) reshard(action.unit);
}

Program Fsdp2Runtime::pre_backward(int unit) {
  stage_.ranks.host(stage_.plan.hook_seconds);
  gate_ = last_copied_out_;  // when forward is over its last output goes, too [49]
  prepare(order_.pre_backward(unit));
  co_return;
}

Program Fsdp2Runtime::post_backward(int unit) {
  stage_.ranks.host(stage_.plan.hook_seconds);
  for (const FsdpAction& action : order_.post_backward(unit)) {
    if (action.deed == FsdpDeed::accumulate) stage_.compute_copies(stage_.unit(unit).accumulate);
    if (action.deed == FsdpDeed::reshard) reshard(unit);
    if (action.deed == FsdpDeed::reduce) reduce(unit);
  }
  co_return;
}

Event Fsdp2Runtime::end_backward() {
  if (!reduces_) return stage_.ranks.record();
  stage_.ranks.wait(last_collective_);
  stage_.ranks.wait(last_reduction_);
  last_reduce_scatter_ = {};
  return last_reduction_;
}

void Fsdp2Runtime::prepare(FsdpOrder::Actions actions) {
  for (const FsdpAction& action : actions) {
    if (action.deed == FsdpDeed::unshard) {
      unshard(action.unit);
    } else {
      use(action.unit, action.backward);
    }
  }
}

// Shards are copied into their place of the output, which is then gathered in place [48].
void Fsdp2Runtime::unshard(int u) {
  const FsdpUnitPlan& unit = stage_.unit(u);
  Event shard = gate_;
  if (unit.to_device.seconds > 0) shard = stage_.copy(copy_in_, unit.to_device, shard);
  if (unit.before_gather.busy > 0) shard = stage_.run(copy_in_, unit.before_gather, shard);
  const bool sharded = stage_.plan.layout.sharded();
  ready(u) = sharded ? stage_.collective(stage_.shards, unit.gather, shard) : shard;
}

// Copies the output into the parameters on the compute stream. Until that is done for the unit
// before (forward) or for this one (backward), no further all-gather starts: its memory would be
// the third [49].
void Fsdp2Runtime::use(int u, bool backward) {
  RankGroup& ranks = stage_.ranks;
  if (!backward) gate_ = last_copied_out_;
  ranks.wait(ready(u));
  ranks.host(stage_.unit(u).unshard_views);
  stage_.compute_copies(stage_.unit(u).after_gather);
  last_copied_out_ = ranks.record();
  if (backward) gate_ = last_copied_out_;
}

void Fsdp2Runtime::reshard(int unit) {
  stage_.ranks.host(stage_.unit(unit).reshard_views);
}

void Fsdp2Runtime::reduce(int u) {
  RankGroup& ranks = stage_.ranks;
  const FsdpUnitPlan& unit = stage_.unit(u);
  // At most one reduce-scatter in flight, and it is compute that waits [52].
  ranks.wait(last_reduce_scatter_);
  stage_.compute_copies(unit.join_gradients);
  StreamId stream = reduce_;
  Event done = stage_.run(stream, unit.before_reduce, ranks.record());
  if (stage_.plan.layout.sharded()) {
    done = stage_.collective(stage_.shards, unit.reduce, done);
    last_reduce_scatter_ = last_collective_ = done;
    done = ranks.enqueue(stream, 0, done, false);
    if (stage_.plan.layout.groups.replicas > 1) stream = all_reduce_;
  }
  if (stage_.plan.layout.groups.replicas > 1) {
    done = last_collective_ = stage_.collective(stage_.replicas, unit.replicate, done);
  }
  const bool adds = stage_.plan.layout.options.sync_every_micro_batch && !first_micro_batch_;
  done = stage_.run(stream, adds ? unit.after_later_reduce : unit.after_reduce, done);
  if (unit.to_host.seconds > 0) done = stage_.copy(stream, unit.to_host, done);
  last_reduction_ = done;
}

}  // namespace lockstep
