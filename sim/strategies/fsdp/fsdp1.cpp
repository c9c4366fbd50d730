// FullyShardedDataParallel's hooks. The host issues; the device's streams run behind it. Numbers in
// brackets: facts of docs/strategies.md.
#include "strategies/fsdp/runtime.hpp"

namespace lockstep {

namespace {

// Free events the host leaves in the queue before it blocks on the oldest [34].
constexpr std::size_t in_flight_limit = 2;
// From the end of that wait to the launch of the all-gather: 235 us [35], of which issuing the
// collective is accounted for on its own.
constexpr double resume_seconds = 235e-6 - issue_before_launch;

}  // namespace

Fsdp1Runtime::Fsdp1Runtime(const FsdpStage& stage)
    : stage_(stage),
      pre_unshard_(stage.add_stream("pre-unshard")),
      post_backward_(stage.add_stream("post-backward")),
      all_reduce_(stage.add_stream("all-reduce")),
      states_(stage.plan.units.size()) {}

void Fsdp1Runtime::begin_forward(bool first_micro_batch, bool reduces) {
  first_micro_batch_ = first_micro_batch;
  reduces_ = reduces;
  start_ = stage_.ranks.record();
}

Program Fsdp1Runtime::pre_forward(int unit) {
  stage_.ranks.host(stage_.plan.hook_seconds);
  if (!state(unit).prefetched) co_await unshard(unit);
  state(unit).prefetched = false;
  stage_.ranks.wait(state(unit).ready);
  const int next = stage_.plan.next[static_cast<std::size_t>(unit)];
  if (stage_.plan.layout.options.forward_prefetch && next >= 0) {
    co_await unshard(next);
    state(next).prefetched = true;
  }
}

void Fsdp1Runtime::post_forward(int unit) {
  stage_.ranks.host(stage_.plan.hook_seconds);
  if (stage_.unit(unit).frees_after_forward) reshard(unit, stage_.ranks.record());
  state(unit).needed_in_backward = true;
}

Program Fsdp1Runtime::pre_backward(int unit) {
  stage_.ranks.host(stage_.plan.hook_seconds);
  if (!state(unit).prefetched) co_await unshard(unit);
  state(unit).prefetched = false;
  state(unit).needed_in_backward = false;
  stage_.ranks.wait(state(unit).ready);
  // Before this unit computes: its all-gather goes in front of this unit's reduce-scatter [36, 37].
  if (stage_.plan.layout.options.backward_prefetch == BackwardPrefetch::pre) {
    co_await prefetch_backward(unit);
  }
}

Program Fsdp1Runtime::post_backward(int unit) {
  const FsdpOptions& options = stage_.plan.layout.options;
  stage_.compute_copies(stage_.unit(unit).join_gradients);
  stage_.ranks.host(stage_.plan.hook_seconds);
  if (!options.sync_every_micro_batch && !first_micro_batch_) {
    stage_.compute_copies(stage_.unit(unit).accumulate);
  }
  const Event gradient = stage_.ranks.record();
  // Without a reduction only FULL_SHARD gives the parameters back [45].
  const bool frees = reduces_ || !stage_.plan.layout.keeps_parameters();
  if (stage_.plan.layout.sharded() && frees) reshard(unit, gradient);
  if (options.backward_prefetch == BackwardPrefetch::post) co_await prefetch_backward(unit);
  if (reduces_) co_await reduce(unit, gradient);
}

Event Fsdp1Runtime::end_backward() {
  if (!reduces_) return stage_.ranks.record();
  // One after the other, so that each gap is booked by what caused it.
  stage_.ranks.wait(collective_before_);
  stage_.ranks.wait(last_input_);
  stage_.ranks.wait(last_collective_);
  stage_.ranks.wait(last_reduction_);
  return last_reduction_;
}

// Pre-unshard stream, rate limiter, all-gather [31].
Program Fsdp1Runtime::unshard(int u) {
  RankGroup& ranks = stage_.ranks;
  const FsdpUnitPlan& unit = stage_.unit(u);
  const bool sharded = stage_.plan.layout.sharded();
  Event shard = start_;
  if (!state(u).gathered) {
    if (unit.to_device.seconds > 0) shard = stage_.copy(pre_unshard_, unit.to_device, shard);
    if (unit.before_gather.device > 0) shard = stage_.run(pre_unshard_, unit.before_gather, shard);
  }
  // Asked even when nothing is left to gather.
  if (stage_.plan.layout.options.limit_all_gathers && freed_.size() >= in_flight_limit) {
    co_await ranks.host_wait(freed_.front(), resume_seconds);
    freed_.pop_front();
  }
  if (!state(u).gathered) {
    state(u).ready = sharded ? stage_.collective(stage_.shards, unit.gather, shard) : shard;
    state(u).gathered = sharded;
  }
  ranks.host(unit.unshard_views);
}

Program Fsdp1Runtime::prefetch_backward(int unit) {
  const int target = stage_.plan.previous[static_cast<std::size_t>(unit)];
  if (target < 0 || !state(target).needed_in_backward || state(target).prefetched) co_return;
  co_await unshard(target);
  state(target).prefetched = true;
}

void Fsdp1Runtime::reshard(int unit, const Event& freed) {
  stage_.ranks.host(stage_.unit(unit).reshard_views);
  state(unit).gathered = false;
  if (stage_.plan.layout.options.limit_all_gathers) freed_.push_back(freed);
}

// On the post-backward stream; the hybrid all-reduce and what follows it on a stream of its own
// [39].
Program Fsdp1Runtime::reduce(int u, Event gradient) {
  RankGroup& ranks = stage_.ranks;
  const FsdpUnitPlan& unit = stage_.unit(u);
  StreamId stream = post_backward_;
  Event done = last_input_ = stage_.run(stream, unit.before_reduce, gradient);
  collective_before_ = last_collective_;
  if (stage_.plan.layout.sharded()) {
    done = stage_.collective(stage_.shards, unit.reduce, done);
    // The stream waits for its collective.
    done = ranks.enqueue(stream, 0, last_collective_ = done, false);
    if (stage_.plan.layout.replicas > 1) stream = all_reduce_;
  }
  if (stage_.plan.layout.replicas > 1) {
    done = last_collective_ = stage_.collective(stage_.replicas, unit.replicate, done);
  }
  const bool adds = stage_.plan.layout.options.sync_every_micro_batch && !first_micro_batch_;
  done = stage_.run(stream, adds ? unit.after_later_reduce : unit.after_reduce, done);
  if (unit.to_host.seconds > 0) {
    done = stage_.copy(stream, unit.to_host, done);
    if (!stage_.plan.layout.sharded())
      co_await ranks.host_wait(done);  // a blocking copy without sharding
  }
  last_reduction_ = done;
}

}  // namespace lockstep
