// The part of the hooks that FSDP1 and FSDP2 share: communicators, ends of micro-batches, and
// kernels after reductions. Numbers in brackets are facts of docs/facts.md.
#include "strategies/fsdp/hooks.hpp"

#include <utility>

namespace lockstep {

FsdpHooks::FsdpHooks(TrainingContext& context, FsdpPlan&& plan)
    : context_(context),
      ranks_(context.ranks),
      plan_(std::move(plan)),
      order_(plan_.layout, plan_.hooks),
      offloaded_(context),
      shards_(shards_of(context, plan_.layout.groups)),
      expert_shards_(context.job.mesh.expert == 1 ? shards_ : expert_shards_of(context)),
      replicas_(replicas_of(context, plan_.layout.groups)),
      host_reads_(plan_.layout.options.offloaded_share() > 0 &&
                  !plan_.layout.options.offload.delayed_update),
      ready_(plan_.units.size()) {}

// In a pipeline, end_micro_batches() reduces gradients once a step.
void FsdpHooks::begin_forward(const MicroBatch& batch) {
  first_micro_batch_ = batch.first;
  const bool each = plan_.layout.options.sync_every_micro_batch || batch.last;
  reduces_ = each && !plan_.layout.once_a_step;
  order_.begin_forward(batch.first, reduces_);
}

// In a pipeline, the forward of other micro-batches may have run since the forward of this one.
// Therefore the micro-batch is set a second time.
void FsdpHooks::begin_backward(const MicroBatch& batch) {
  first_micro_batch_ = batch.first;
  order_.begin_forward(batch.first, reduces_);
}

Program FsdpHooks::end_micro_batches() {
  if (!plan_.layout.once_a_step) co_return;
  for (const FsdpAction& action : order_.end_micro_batches()) co_await finish(action);
  const Event gradients = await_reductions();
  if (host_reads_) co_await ranks_.host_wait(gradients);
}

Program FsdpHooks::end_backward() {
  if (!reduces_) co_return;
  const Event gradients = await_reductions();
  if (host_reads_) co_await ranks_.host_wait(gradients);
}

void FsdpHooks::reduce_scalar() {
  if (plan_.scalar.seconds <= 0) return;
  ranks_.wait(context_.collective(shards_, plan_.scalar, ranks_.record()));
}

StreamId FsdpHooks::add_stream(const std::string& name) {
  return ranks_.add_stream(name, plan_.layout.options.offloaded_share() > 0
                                     ? WaitCause::communication
                                     : WaitCause::copies);
}

Event FsdpHooks::over_shards(const FsdpUnitPlan& unit, const PricedTransfer& transfer,
                             const Event& after) {
  if (!unit.expert) return context_.collective(shards_, transfer, after);
  // If a single rank holds the experts, they are not sharded, and there is no collective.
  return transfer.seconds > 0 ? context_.collective(expert_shards_, transfer, after) : after;
}

Event FsdpHooks::over_replicas(const PricedTransfer& transfer, const Event& after) {
  return context_.collective(replicas_, transfer, after);
}

const QueuedWork& FsdpHooks::after_reduce(const FsdpUnitPlan& unit) const {
  const bool adds = plan_.layout.options.sync_every_micro_batch && !first_micro_batch_;
  return adds ? unit.after_later_reduce : unit.after_reduce;
}

}  // namespace lockstep
