// A lower bound of FSDP's step time without simulation: plays FsdpOrder's actions and adds up the
// lone times of each communicator's collectives. `recommend` uses it to skip points that cannot
// win.
#include <algorithm>

#include "strategies/fsdp/fsdp.hpp"
#include "strategies/fsdp/plan.hpp"

namespace lockstep {

namespace {

// By communicator: the seconds that the collectives of all micro-batches take without other
// traffic.
class LoneTimes {
 public:
  explicit LoneTimes(const FsdpPlan& plan) : plan_(plan), order_(plan.layout, plan.hooks) {}

  void micro_batch(bool first, bool reduces) {
    order_.begin_forward(first, reduces);
    for (const auto* pass : {&plan_.passes.forward, &plan_.passes.backward}) {
      for (const PassItem& item : *pass) {
        if (item.hook == Hook::pre_forward) add(order_.pre_forward(item.unit));
        if (item.hook == Hook::post_forward) add(order_.post_forward(item.unit));
        if (item.hook == Hook::pre_backward) add(order_.pre_backward(item.unit));
        if (item.hook == Hook::post_backward) add(order_.post_backward(item.unit));
      }
    }
  }

  double shards = 0, replicas = 0;

 private:
  void add(FsdpOrder::Actions actions) {
    for (const FsdpAction& action : actions) {
      const FsdpUnitPlan& unit = plan_.units[static_cast<std::size_t>(action.unit)];
      if (action.deed == FsdpDeed::unshard && action.fresh) shards += unit.gather.seconds;
      if (action.deed != FsdpDeed::reduce) continue;
      shards += unit.reduce.seconds;
      replicas += unit.replicate.seconds;
    }
  }

  const FsdpPlan& plan_;
  FsdpOrder order_;
};

}  // namespace

// This is a bound because a communicator runs one collective after the other, no collective is
// faster than its lone time, and all collectives of a step lie within the step: parameters are
// gathered after the previous update, and gradients are reduced before the next one. Shards and
// replicas share a communicator unless the groups are hybrid; then the busier of the two
// communicators is the bound.
double Fsdp::least_communication_seconds(const Job& job) const {
  if (job.parts || job.mesh.expert > 1) return 0;
  const FsdpLayout layout = fsdp_layout(job, options_);
  TrainingWorld world(job, "fsdp", Engine::loop);
  const FsdpPlan plan = fsdp_plan(world.parts.front(), layout);
  LoneTimes lone_times(plan);
  // Micro-batches between the second and the last are equal to the second, so the second is counted
  // several times.
  const int played = std::min(job.accumulation, 3);
  for (int micro = 0; micro < played; ++micro) {
    const double shards = lone_times.shards, replicas = lone_times.replicas;
    const bool last = micro + 1 == played;
    lone_times.micro_batch(micro == 0, layout.options.sync_every_micro_batch || last);
    if (micro != 1) continue;
    lone_times.shards += (job.accumulation - played) * (lone_times.shards - shards);
    lone_times.replicas += (job.accumulation - played) * (lone_times.replicas - replicas);
  }
  return layout.groups.hybrid() ? std::max(lone_times.shards, lone_times.replicas)
                                : lone_times.shards + lone_times.replicas;
}

}  // namespace lockstep
