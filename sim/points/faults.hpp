// The whole run of a point with failures: what of it is simulated, what is played (faults/).
#pragma once

#include "points/misfits.hpp"
#include "points/points.hpp"
#include "results/record.hpp"
#include "scenario/scenario.hpp"

namespace lockstep {

// Hosts that some strategy of the scenario has for its servers alone. They are the nodes after those
// with GPUs.
int hosts_of_servers(const Scenario& scenario);

// Whether a job goes on with the nodes, or the replicas, that are left; absent `recovery` = where workers need not keep
// step.
bool goes_on_with_fewer(const Faults& faults, const Strategy& strategy);

// What scenario.faults says of nodes that are not there, at any of its GPU counts.
void check_faults(const Scenario& scenario, const Machine& machine, Misfits& misfits);

// Nodes of a replica of the state, which is lost with one of them: those of a shard group, of the mesh
// around it, or one. 0 where the job's nodes do not make several of them.
int nodes_that_fail_together(const Point& point);

// Refuses parts of scenario.faults and its checkpoints that the point's strategy excludes.
void check_recovery(const Scenario& scenario, const Point& point, Misfits& misfits);

// Plays the run of prediction.steps steps. Workers that may be fewer are simulated with as many
// nodes as may be left. Throws ConfigError when the strategy refuses such a number.
RunWithFailures run_with_failures(const Scenario& scenario, const Point& point,
                                  const StrategyResult& result, const Prediction& prediction);

}  // namespace lockstep
