// The host's actions at FSDP's hooks: FSDP1's prefetching and rate limiter, and FSDP2's explicit
// order, as in torch/distributed/fsdp (_runtime_utils.py, _limiter_utils.py;
// _fully_shard/_fsdp_param_group.py). Numbers in brackets are facts of docs/facts.md.
#include "strategies/fsdp/order.hpp"

namespace lockstep {

namespace {

// Number of events that the host leaves in the queue before it blocks on the oldest one [34].
constexpr std::size_t in_flight_limit = 2;

// The layer whose backward completes the unit's gradient. If the unit has no trained parameters, it
// is resharded where its gradient would be complete.
int completed_by(const FsdpUnit& unit, const TrainingStep& step) {
  for (const int layer : unit.layers) {
    for (const Parameter& parameter : step.layers[layer].parameters) {
      if (parameter.trainable) return layer;
    }
  }
  return unit.layers.front();
}

}  // namespace

HookPlaces fsdp_hooks(const FsdpLayout& layout, const TrainingStep& step) {
  std::vector<HookedUnit> units;
  for (const FsdpUnit& unit : layout.units) {
    units.push_back({unit.first, unit.last, completed_by(unit, step)});
    // Experts are reduced together with the module around them, which precedes them in the list.
    const bool inside = unit.expert && units.size() > 1 && units.end()[-2].first == unit.first &&
                        units.end()[-2].last == unit.last;
    if (inside) units.back().completed_by = units.end()[-2].completed_by;
  }
  if (layout.options.version == 1 && layout.options.forward_prefetch) {
    // With forward_prefetch, a unit's views are made before the previous unit computes. Autograd
    // runs in reverse, so it reaches these views only after the previous unit's backward.
    for (std::size_t i = units.size(); i-- > 1;) {
      const int before = units[i - 1].completed_by;
      if (before < units[i].completed_by) units[i].completed_by = before;
    }
  }
  return hook_places(units, step.layers.size());
}

// Derives the order of units from the hooks: the next unit in forward, the previous unit in
// forward, and the order in which gradients become complete.
FsdpOrder::FsdpOrder(const FsdpLayout& layout, const HookPlaces& hooks)
    : options_(layout.options),
      sharded_(layout.sharded()),
      keeps_parameters_(layout.keeps_parameters()),
      once_a_step_(layout.once_a_step) {
  for (const FsdpUnit& unit : layout.units) {
    const bool stays = unit.stays || keeps_parameters_ ||
                       (once_a_step_ && !(version_two() && options_.reshard_in_pipeline));
    units_.push_back({.trains = unit.trainable_tensors() > 0,
                      .frees_after_forward = (sharded_ || version_two()) && !stays});
  }
  for (std::size_t layer = hooks.after_backward.size(); layer-- > 0;) {
    for (const int u : hooks.after_backward[layer]) backward_order_.push_back(u);
  }
  int begun = -1, ended = -1;
  for (std::size_t layer = 0; layer < hooks.before_forward.size(); ++layer) {
    for (const int u : hooks.before_forward[layer]) {
      if (begun >= 0) of(begun).next = u;
      begun = u;
    }
    for (const int u : hooks.after_forward[layer]) {
      of(u).previous = ended;
      ended = u;
    }
  }
}

void FsdpOrder::begin_forward(bool first_micro_batch, bool reduces) {
  first_micro_batch_ = first_micro_batch;
  reduces_ = reduces;
}

FsdpOrder::Actions FsdpOrder::pre_forward(int u) {
  actions_.clear();
  if (!of(u).prefetched) unshard(u, false);
  of(u).prefetched = false;
  use(u, false);
  if (!version_two() && options_.forward_prefetch && of(u).next >= 0) {
    unshard(of(u).next, false);
    of(of(u).next).prefetched = true;
  }
  return actions_;
}

FsdpOrder::Actions FsdpOrder::post_forward(int u) {
  actions_.clear();
  // FSDP1 on one rank (NO_SHARD) also reshards after every use.
  const bool no_shard = !sharded_ && !version_two() && !once_a_step_;
  if (of(u).frees_after_forward || no_shard) reshard(u, false);
  of(u).needed_in_backward = true;
  return actions_;
}

FsdpOrder::Actions FsdpOrder::pre_backward(int u) {
  actions_.clear();
  if (!of(u).prefetched) unshard(u, true);
  of(u).prefetched = of(u).needed_in_backward = false;
  use(u, true);
  // Prefetch before this unit computes, so that the all-gather runs before this unit's
  // reduce-scatter on the communicator [36, 37, 51].
  if (version_two() || options_.backward_prefetch == BackwardPrefetch::pre) {
    prefetch(of(u).previous, true);
  }
  return actions_;
}

// In a pipeline (`once_a_step_`), gradients are only kept; end_micro_batches() reduces them.
FsdpOrder::Actions FsdpOrder::post_backward(int u) {
  actions_.clear();
  const auto act = [&](FsdpDeed deed) { actions_.push_back({deed, u, true}); };
  const bool accumulates =
      once_a_step_ ? of(u).kept : !options_.sync_every_micro_batch && !first_micro_batch_;
  if (of(u).trains && !version_two()) act(FsdpDeed::join);
  if (of(u).trains && accumulates) act(FsdpDeed::accumulate);
  if (once_a_step_) {
    if (of(u).trains) act(FsdpDeed::keep);
    if (of(u).trains) actions_.back().fresh = !accumulates;
    of(u).kept = true;
    return actions_;
  }
  // In a micro-batch without reduction, FSDP1 reshards only under FULL_SHARD [45].
  if (version_two() || !sharded_ || reduces_ || !keeps_parameters_) reshard(u, true);
  if (!version_two() && options_.backward_prefetch == BackwardPrefetch::post) {
    prefetch(of(u).previous, true);
  }
  if (of(u).trains) act(reduces_ ? FsdpDeed::reduce : FsdpDeed::keep);
  if (of(u).trains) actions_.back().fresh = !accumulates;
  return actions_;
}

FsdpOrder::Actions FsdpOrder::end_micro_batches() {
  actions_.clear();
  if (!once_a_step_) return actions_;
  for (const int u : backward_order_) {
    reshard(u, true);
    of(u).kept = false;
    if (of(u).trains) actions_.push_back({FsdpDeed::reduce, u, true});
  }
  return actions_;
}

void FsdpOrder::unshard(int u, bool backward) {
  Unit& unit = of(u);
  if ((version_two() || once_a_step_) && unit.gathered) return;
  // FSDP1 calls its rate limiter even if the unit is already gathered.
  FsdpAction action{FsdpDeed::unshard, u, backward, !unit.gathered};
  action.limited = !version_two() && options_.limit_all_gathers && in_flight_ >= in_flight_limit;
  if (action.limited) --in_flight_;
  actions_.push_back(action);
  unit.gathered = sharded_ || version_two() || once_a_step_;
}

// FSDP2 copies the collective's output into the parameters once for each all-gather.
void FsdpOrder::use(int u, bool backward) {
  if ((version_two() || once_a_step_) && of(u).used) return;
  of(u).used = true;
  actions_.push_back({FsdpDeed::use, u, backward});
}

// FSDP1 prefetches a unit only if its forward has run and its backward has not. FSDP2 makes no such
// check; unshard() skips units that are already gathered.
void FsdpOrder::prefetch(int u, bool backward) {
  if (u < 0) return;
  if (!version_two()) {
    if (!of(u).needed_in_backward || of(u).prefetched) return;
    of(u).prefetched = true;
  }
  unshard(u, backward);
}

void FsdpOrder::reshard(int u, bool backward) {
  FsdpAction action{FsdpDeed::reshard, u, backward};
  action.limited = !version_two() && options_.limit_all_gathers && sharded_;
  if (action.limited) ++in_flight_;
  actions_.push_back(action);
  of(u).gathered = of(u).used = false;
}

}  // namespace lockstep
