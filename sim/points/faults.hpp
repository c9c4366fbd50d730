// The whole run of a point with failures, checkpoints and restarts. Checks a scenario's `faults:`,
// turns a predicted step into a plan of the run (faults/long_run.hpp) and plays the plan.
#pragma once

#include "points/misfits.hpp"
#include "points/points.hpp"
#include "results/record.hpp"
#include "scenario/scenario.hpp"

namespace lockstep {

// The largest number of hosts that a strategy of the scenario has for its servers alone. Such hosts
// are numbered after the nodes with GPUs.
int hosts_of_servers(const Scenario& scenario);

// Whether the job continues with the remaining nodes or replicas after a failure. If the scenario
// does not give `recovery`, a job continues exactly if its workers need not keep step.
bool goes_on_with_fewer(const Faults& faults, const Strategy& strategy);

// Adds misfits for nodes, workers and servers in scenario.faults that exist at no GPU count, and
// for scheduled failures that leave too few nodes to finish.
void check_faults(const Scenario& scenario, const Machine& machine, Misfits& misfits);

// Nodes of one replica of the state, all of which are lost if one fails: the nodes of a shard group
// times the stages of the pipeline. 0 if the job's nodes are not several such replicas.
int nodes_that_fail_together(const Point& point);

// Adds misfits for recovery and in-memory copies that the point's strategy excludes.
void check_recovery(const Scenario& scenario, const Point& point, Misfits& misfits);

// Plays the run of prediction.steps steps, several times with different failures. If the job
// continues with fewer workers, the step is also simulated with fewer nodes. Throws ConfigError if
// the strategy refuses the job.
RunWithFailures run_with_failures(const Scenario& scenario, const Point& point,
                                  const StrategyResult& result, const Prediction& prediction);

}  // namespace lockstep
