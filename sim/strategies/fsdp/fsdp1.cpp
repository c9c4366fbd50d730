// FullyShardedDataParallel on its streams: the host issues, the device runs behind it. Numbers in
// brackets: facts of docs/strategies.md.
#include <optional>

#include "strategies/fsdp/runtime.hpp"

namespace lockstep {

namespace {

// From the end of the rate limiter's wait to the launch of the all-gather: 235 us [35], of which
// issuing the collective is accounted for on its own.
constexpr double resume_seconds = 235e-6 - issue_before_launch;

}  // namespace

Fsdp1Runtime::Fsdp1Runtime(const FsdpStage& stage)
    : stage_(stage),
      pre_unshard_(stage.add_stream("pre-unshard")),
      post_backward_(stage.add_stream("post-backward")),
      all_reduce_(stage.add_stream("all-reduce")),
      order_(stage.plan.layout, stage.plan.hooks),
      ready_(stage.plan.units.size()) {}

void Fsdp1Runtime::begin_forward(bool first_micro_batch, bool reduces) {
  order_.begin_forward(first_micro_batch, reduces);
  first_micro_batch_ = first_micro_batch;
  reduces_ = reduces;
  start_ = stage_.ranks.record();
}

Program Fsdp1Runtime::pre_forward(int unit) {
  stage_.ranks.host(stage_.plan.hook_seconds);
  co_await prepare(order_.pre_forward(unit));
}

void Fsdp1Runtime::post_forward(int unit) {
  stage_.ranks.host(stage_.plan.hook_seconds);
  for (const FsdpAction& action : order_.post_forward(unit)) {
    reshard(action, stage_.ranks.record());
  }
}

Program Fsdp1Runtime::pre_backward(int unit) {
  stage_.ranks.host(stage_.plan.hook_seconds);
  co_await prepare(order_.pre_backward(unit));
}

Program Fsdp1Runtime::post_backward(int u) {
  const FsdpUnitPlan& unit = stage_.unit(u);
  std::optional<Event> gradient;  // is complete
  const auto complete = [&] {
    if (!gradient) gradient = stage_.ranks.record();
    return *gradient;
  };
  for (const FsdpAction& action : order_.post_backward(u)) {
    switch (action.deed) {
      case FsdpDeed::join:  // by autograd, which then calls the hook
        stage_.compute_copies(unit.join_gradients);
        stage_.ranks.host(stage_.plan.hook_seconds);
        break;
      case FsdpDeed::accumulate:
        stage_.compute_copies(unit.accumulate);
        break;
      case FsdpDeed::unshard:
        complete();
        co_await unshard(action);
        break;
      case FsdpDeed::reshard:
        reshard(action, complete());
        break;
      case FsdpDeed::reduce:
        co_await reduce(u, complete());
        break;
      case FsdpDeed::use:
      case FsdpDeed::keep:
        break;
    }
  }
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

Program Fsdp1Runtime::prepare(FsdpOrder::Actions actions) {
  for (const FsdpAction& action : actions) {
    if (action.deed == FsdpDeed::unshard) {
      co_await unshard(action);
    } else {
      stage_.ranks.wait(ready(action.unit));
    }
  }
}

// Pre-unshard stream, rate limiter, all-gather [31].
Program Fsdp1Runtime::unshard(const FsdpAction& action) {
  RankGroup& ranks = stage_.ranks;
  const FsdpUnitPlan& unit = stage_.unit(action.unit);
  Event shard = start_;
  if (action.fresh) {
    if (unit.to_device.seconds > 0) shard = stage_.copy(pre_unshard_, unit.to_device, shard);
    if (unit.before_gather.busy > 0) shard = stage_.run(pre_unshard_, unit.before_gather, shard);
  }
  if (action.limited) {
    co_await ranks.host_wait(freed_.front(), resume_seconds);
    freed_.pop_front();
  }
  if (action.fresh) {
    const bool sharded = stage_.plan.layout.sharded();
    ready(action.unit) = sharded ? stage_.collective(stage_.shards, unit.gather, shard) : shard;
  }
  ranks.host(unit.unshard_views);
}

void Fsdp1Runtime::reshard(const FsdpAction& action, const Event& freed) {
  if (!stage_.plan.layout.sharded()) return;
  stage_.ranks.host(stage_.unit(action.unit).reshard_views);
  if (action.limited) freed_.push_back(freed);
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
    if (stage_.plan.layout.groups.replicas > 1) stream = all_reduce_;
  }
  if (stage_.plan.layout.groups.replicas > 1) {
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
