// AD-PSGD: asynchronous ranks that average in pairs (Lian et al. 2018). Gossip::simulate() calls it
// if the graph is `pairs` and the job has at least two ranks.
#pragma once

#include "results/schedule.hpp"
#include "strategies/common/replica.hpp"
#include "strategies/gossip/options.hpp"

namespace lockstep {

// Simulates the job. `bytes` are the bytes of a rank's parameters. Fills the steps and averages of
// `schedule` in the order of simulated time.
StrategyResult simulate_pairs(const Job& job, const GossipOptions& options, double bytes,
                              UpdateSchedule& schedule);

}  // namespace lockstep
