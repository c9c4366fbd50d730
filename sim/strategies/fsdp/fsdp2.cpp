// fully_shard's hooks. The host never blocks (its programs never wait); streams wait for each
// other. Numbers in brackets: facts of docs/strategies.md.
#include "strategies/fsdp/runtime.hpp"

namespace lockstep {

Fsdp2Runtime::Fsdp2Runtime(const FsdpStage& stage)
    : stage_(stage),
      copy_in_(stage.add_stream("all-gather copy-in")),
      reduce_(stage.add_stream("reduce-scatter")),
      all_reduce_(stage.add_stream("all-reduce")),
      states_(stage.plan.units.size()) {}

void Fsdp2Runtime::begin_forward(bool first_micro_batch, bool reduces) {
  first_micro_batch_ = first_micro_batch;
  reduces_ = reduces;
  gate_ = last_copied_out_ = stage_.ranks.record();
}

Program Fsdp2Runtime::pre_forward(int unit) {
  stage_.ranks.host(stage_.plan.hook_seconds);
  unshard(unit);
  wait_for_unshard(unit, false);
  co_return;
}

void Fsdp2Runtime::post_forward(int u) {
  stage_.ranks.host(stage_.plan.hook_seconds);
  if (stage_.unit(u).frees_after_forward) reshard(u);
}

Program Fsdp2Runtime::pre_backward(int unit) {
  stage_.ranks.host(stage_.plan.hook_seconds);
  gate_ = last_copied_out_;  // when forward is over its last output goes, too [49]
  unshard(unit);
  wait_for_unshard(unit, true);
  // Exactly one unit ahead, before this one computes [51].
  const int next = stage_.plan.previous[static_cast<std::size_t>(unit)];
  if (next >= 0) unshard(next);
  co_return;
}

Program Fsdp2Runtime::post_backward(int u) {
  RankGroup& ranks = stage_.ranks;
  const FsdpUnitPlan& unit = stage_.unit(u);
  ranks.host(stage_.plan.hook_seconds);
  const bool keeps = !stage_.plan.layout.options.sync_every_micro_batch;
  if (keeps && !first_micro_batch_) stage_.compute_copies(unit.accumulate);
  reshard(u);
  if (!reduces_) co_return;
  // At most one reduce-scatter in flight, and it is compute that waits [52].
  ranks.wait(last_reduce_scatter_);
  stage_.compute_copies(unit.join_gradients);
  StreamId stream = reduce_;
  Event done = stage_.run(stream, unit.before_reduce, ranks.record());
  if (stage_.plan.layout.sharded()) {
    done = stage_.collective(stage_.shards, unit.reduce, done);
    last_reduce_scatter_ = last_collective_ = done;
    done = ranks.enqueue(stream, 0, done, false);
    if (stage_.plan.layout.replicas > 1) stream = all_reduce_;
  }
  if (stage_.plan.layout.replicas > 1) {
    done = last_collective_ = stage_.collective(stage_.replicas, unit.replicate, done);
  }
  const bool adds = !keeps && !first_micro_batch_;
  done = stage_.run(stream, adds ? unit.after_later_reduce : unit.after_reduce, done);
  if (unit.to_host.seconds > 0) done = stage_.copy(stream, unit.to_host, done);
  last_reduction_ = done;
}

Event Fsdp2Runtime::end_backward() {
  if (!reduces_) return stage_.ranks.record();
  stage_.ranks.wait(last_collective_);
  stage_.ranks.wait(last_reduction_);
  last_reduce_scatter_ = {};
  return last_reduction_;
}

// Shards are copied into their place of the output, which is then gathered in place [48].
void Fsdp2Runtime::unshard(int u) {
  const FsdpUnitPlan& unit = stage_.unit(u);
  if (state(u).gathered) return;
  Event shard = gate_;
  if (unit.to_device.seconds > 0) shard = stage_.copy(copy_in_, unit.to_device, shard);
  if (unit.before_gather.device > 0) shard = stage_.run(copy_in_, unit.before_gather, shard);
  const bool sharded = stage_.plan.layout.sharded();
  state(u).ready = sharded ? stage_.collective(stage_.shards, unit.gather, shard) : shard;
  state(u).gathered = true;
}

// Copies the output into the parameters on the compute stream. Until that is done for the unit
// before (forward) or for this one (backward), no further all-gather starts: its memory would be
// the third [49].
void Fsdp2Runtime::wait_for_unshard(int u, bool backward) {
  RankGroup& ranks = stage_.ranks;
  if (state(u).copied_out) return;
  if (!backward) gate_ = last_copied_out_;
  ranks.wait(state(u).ready);
  ranks.host(stage_.unit(u).unshard_views);
  stage_.compute_copies(stage_.unit(u).after_gather);
  last_copied_out_ = ranks.record();
  if (backward) gate_ = last_copied_out_;
  state(u).copied_out = true;
}

void Fsdp2Runtime::reshard(int unit) {
  stage_.ranks.host(stage_.unit(unit).reshard_views);
  state(unit) = {};
}

}  // namespace lockstep
