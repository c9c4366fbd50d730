// The world of one job, and what its host issues.
#include "strategies/common/context.hpp"

#include "strategies/common/step_parts.hpp"

namespace lockstep {

TrainingContext::TrainingContext(const Job& trained_job, const std::string& name, Engine executor,
                                 std::span<const RankGroups> axes)
    : job(trained_job),
      costs(step_costs(trained_job)),
      speeds(trained_job, axes),
      engine(executor),
      world({.network = trained_job.simulation.network,
             .engine = executor,
             .observer = trained_job.simulation.observer}),
      network(world, trained_job),
      ranks(world.add_ranks({.name = name,
                             .ranks_per_lane = speeds.ranks_per_lane(),
                             .lane_of_rank = speeds.lane_of_rank(),
                             .device_of_lane = speeds.device_of_lane(),
                             .slowdown = interference_of(trained_job, costs),
                             .one_thread = one_thread(trained_job)})) {}

Event TrainingContext::collective(Communicator& communicator, const PricedTransfer& transfer,
                                  const Event& after) {
  provenance.add(transfer);
  return issue_collective(ranks, communicator, transfer.spec, after);
}

Event TrainingContext::copy(StreamId stream, const PricedTransfer& transfer, const Event& after) {
  provenance.add(transfer);
  return ranks.copy(stream, transfer.spec, after);
}

void TrainingContext::copies(const QueuedWork& work, std::string_view name) {
  if (work.busy <= 0) return;
  provenance.add(work);
  ranks.compute(Phase::copies, work, name);
}

Event TrainingContext::run(StreamId stream, const QueuedWork& kernels, const Event& after) {
  if (one_thread(job)) {
    if (kernels.busy <= 0) return after;
    ranks.wait(after);
    copies(kernels);
    return ranks.record();
  }
  provenance.add(kernels);
  ranks.host(kernels.host);
  return ranks.enqueue(stream, kernels.busy, after, kernels.busy > 0, {}, ranks.elsewhere(kernels));
}

}  // namespace lockstep
