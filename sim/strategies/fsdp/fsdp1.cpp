// FullyShardedDataParallel (FSDP1) on its streams: pre-unshard (casts and copies of shards),
// post-backward (reductions), all-reduce (hybrid), and the compute stream [29]. The host issues
// actions in the order of FsdpOrder and blocks only in the rate limiter. Numbers in brackets are
// facts of docs/facts.md.
//
//   forward   [cast or copy of the shard] -> rate limiter -> all-gather -> compute waits -> compute
//   backward  compute waits -> prefetch of the next unit -> compute -> reshard -> reduce-scatter
#include <optional>

#include "strategies/fsdp/hooks.hpp"

namespace lockstep {

namespace {

// Host seconds from the end of the rate limiter's wait to the launch of the all-gather: 235 us
// [35], less the time to issue a collective, which context.collective() adds.
constexpr double resume_seconds = 235e-6 - issue_before_launch;

}  // namespace

Fsdp1Hooks::Fsdp1Hooks(TrainingContext& context, FsdpPlan&& plan)
    : FsdpHooks(context, std::move(plan)),
      pre_unshard_(add_stream("pre-unshard")),
      post_backward_(add_stream("post-backward")),
      all_reduce_(add_stream("all-reduce")) {}

void Fsdp1Hooks::begin_forward(const MicroBatch& batch) {
  FsdpHooks::begin_forward(batch);
  start_ = ranks_.record();
}

Program Fsdp1Hooks::pre_forward(int unit) {
  ranks_.host(plan_.hook_seconds);
  co_await prepare(order_.pre_forward(unit));
}

void Fsdp1Hooks::post_forward(int unit) {
  ranks_.host(plan_.hook_seconds);
  for (const FsdpAction& action : order_.post_forward(unit)) {
    reshard(action, ranks_.record());
  }
}

Program Fsdp1Hooks::pre_backward(int unit) {
  ranks_.host(plan_.hook_seconds);
  co_await prepare(order_.pre_backward(unit));
}

// All actions that need the gradient refer to the same event on the compute stream: the gradient is
// complete before a prefetch or reshard is issued.
Program Fsdp1Hooks::post_backward(int u) {
  const FsdpUnitPlan& unit = plan_.unit(u);
  std::optional<Event> gradient;  // the event that the gradient is complete
  const auto complete = [&] {
    if (!gradient) gradient = ranks_.record();
    return *gradient;
  };
  for (const FsdpAction& action : order_.post_backward(u)) {
    switch (action.deed) {
      case FsdpDeed::join:  // autograd joins the gradients, and then calls the hook
        context_.copies(unit.join_gradients);
        ranks_.host(plan_.hook_seconds);
        break;
      case FsdpDeed::accumulate:
        context_.copies(unit.accumulate);
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

Event Fsdp1Hooks::await_reductions() {
  // The waits are in the order of the events, so that the idle time before each is booked by its
  // own cause.
  ranks_.wait(collective_before_);
  ranks_.wait(last_input_);
  ranks_.wait(last_collective_);
  ranks_.wait(last_reduction_);
  return last_reduction_;
}

Program Fsdp1Hooks::finish(const FsdpAction& action) {
  if (action.deed == FsdpDeed::reshard) reshard(action, ranks_.record());
  if (action.deed == FsdpDeed::reduce) co_await reduce(action.unit, ranks_.record());
}

// Gathers units, and makes the compute stream wait for the units that compute next.
Program Fsdp1Hooks::prepare(FsdpOrder::Actions actions) {
  for (const FsdpAction& action : actions) {
    if (action.deed == FsdpDeed::unshard) {
      co_await unshard(action);
    } else {
      ranks_.wait(ready(action.unit));
    }
  }
}

// A cast or copy of the shard on the pre-unshard stream, then the rate limiter, then the all-gather
// [31].
Program Fsdp1Hooks::unshard(const FsdpAction& action) {
  const FsdpUnitPlan& unit = plan_.unit(action.unit);
  Event shard = start_;
  if (action.fresh) {
    shard = offloaded_.to_device(pre_unshard_, unit, shard);
    if (unit.before_gather.busy > 0) shard = context_.run(pre_unshard_, unit.before_gather, shard);
  }
  if (action.limited) {
    co_await ranks_.host_wait(freed_.front(), resume_seconds);
    freed_.pop_front();
  }
  if (action.fresh) {
    ready(action.unit) = plan_.layout.sharded() ? over_shards(unit, unit.gather, shard) : shard;
  }
  ranks_.host(unit.unshard_views);
}

// `freed` is the event that the unit's compute has ended; the rate limiter waits for it.
void Fsdp1Hooks::reshard(const FsdpAction& action, const Event& freed) {
  if (!plan_.layout.sharded()) return;
  ranks_.host(plan_.unit(action.unit).reshard_views);
  if (action.limited) freed_.push_back(freed);
}

// Casts, divisions and the reduce-scatter run on the post-backward stream. The hybrid all-reduce
// and the kernels after it run on a stream of their own [39].
Program Fsdp1Hooks::reduce(int u, Event gradient) {
  const FsdpUnitPlan& unit = plan_.unit(u);
  StreamId stream = post_backward_;
  Event done = last_input_ = context_.run(stream, unit.before_reduce, gradient);
  collective_before_ = last_collective_;
  if (plan_.layout.sharded()) {
    done = over_shards(unit, unit.reduce, done);
    // An item without seconds makes the stream wait for its collective.
    done = ranks_.enqueue(stream, 0, last_collective_ = done, false);
    if (plan_.layout.groups.replicas > 1) stream = all_reduce_;
  }
  if (plan_.layout.groups.replicas > 1) {
    done = last_collective_ = over_replicas(unit.replicate, done);
  }
  done = context_.run(stream, after_reduce(unit), done);
  if (unit.to_host.seconds > 0) {
    done = offloaded_.gradients_to_host(stream, unit, done);
    if (!plan_.layout.sharded())
      co_await ranks_.host_wait(done);  // without sharding, the copy blocks
  }
  last_reduction_ = done;
}

}  // namespace lockstep
