// AD-PSGD: asynchronous ranks that average in pairs. Used if the graph of `gossip` is `pairs`.
#pragma once

#include "results/schedule.hpp"
#include "strategies/common/replica.hpp"
#include "strategies/gossip/options.hpp"

namespace lockstep {

// `bytes`: of a rank's parameters. Fills the schedule's steps and averages.
StrategyResult simulate_pairs(const Job& job, const GossipOptions& options, double bytes,
                              UpdateSchedule& schedule);

}  // namespace lockstep
