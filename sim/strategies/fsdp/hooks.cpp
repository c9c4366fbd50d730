// The part of the hooks that FSDP1 and FSDP2 share. Numbers in brackets: facts of docs/strategies.md.
#include "strategies/fsdp/hooks.hpp"

namespace lockstep {

FsdpHooks::FsdpHooks(TrainingContext& context, const FsdpPlan& plan,
                     const FsdpCommunicators& communicators)
    : context_(context),
      ranks_(context.ranks),
      plan_(plan),
      order_(plan.layout, plan.hooks),
      communicators_(communicators),
      ready_(plan.units.size()) {}

void FsdpHooks::begin_forward(const MicroBatch& batch) {
  first_micro_batch_ = batch.first;
  reduces_ = plan_.layout.options.sync_every_micro_batch || batch.last;
  order_.begin_forward(batch.first, reduces_);
}

Program FsdpHooks::end_backward() {
  if (!reduces_) co_return;
  const Event gradients = await_reductions();
  if (plan_.layout.options.cpu_offload) co_await ranks_.host_wait(gradients);
}

void FsdpHooks::reduce_scalar() {
  if (plan_.scalar.seconds <= 0) return;
  ranks_.wait(over_shards(plan_.scalar, ranks_.record()));
}

StreamId FsdpHooks::add_stream(const std::string& name) {
  return ranks_.add_stream(
      name, plan_.layout.options.cpu_offload ? WaitCause::communication : WaitCause::copies);
}

Event FsdpHooks::over_shards(const PricedTransfer& transfer, const Event& after) {
  return context_.collective(communicators_.shards, transfer, after);
}

Event FsdpHooks::over_replicas(const PricedTransfer& transfer, const Event& after) {
  return context_.collective(communicators_.replicas, transfer, after);
}

const QueuedWork& FsdpHooks::after_reduce(const FsdpUnitPlan& unit) const {
  const bool adds = plan_.layout.options.sync_every_micro_batch && !first_micro_batch_;
  return adds ? unit.after_later_reduce : unit.after_reduce;
}

}  // namespace lockstep
