// The whole run of a point with failures, checkpoints and restarts. Checks a scenario's `faults:`,
// turns a predicted step into a plan of the run, and simulates the plan (faults/long_run.hpp).
#pragma once

#include "points/misfits.hpp"
#include "points/points.hpp"
#include "results/record.hpp"
#include "scenario/scenario.hpp"

namespace lockstep {

// The number of hosts that run servers only: the largest such number of the scenario's strategies.
// These hosts are numbered after the nodes with GPUs.
int hosts_of_servers(const Scenario& scenario);

// Whether the job continues with the remaining nodes or replicas after a failure. If the scenario
// does not give `recovery`, a job continues only if its strategy runs on without a failed worker
// (Strategy::outlives_workers()).
bool goes_on_with_fewer(const Faults& faults, const Strategy& strategy);

// Adds misfits for nodes, workers and servers in scenario.faults that exist at no GPU count, for a
// `min_nodes` above the job's nodes, for spare nodes that the platform lacks, and for the first
// strategy and GPU count for which the scheduled failures leave too few nodes.
void check_faults(const Scenario& scenario, const Machine& machine, Misfits& misfits);

// Number of nodes that hold one replica of the state, so that the failure of any such node loses
// the replica: the nodes of a shard group times the stages of the pipeline. 0 if the job does not
// consist of several such replicas.
int nodes_that_fail_together(const Point& point);

// Adds misfits if the point's strategy excludes the scenario's `recovery` or its in-memory copies.
void check_recovery(const Scenario& scenario, const Point& point, Misfits& misfits);

// Simulates the run of prediction.steps steps several times, with different failures. Simulates the
// step again wherever the run needs its speed: with fewer nodes if the job continues with them,
// with a slow node (`degraded`), during a staged write of a checkpoint. Throws ConfigError if the
// strategy refuses the job.
// REQUIRES: scenario.faults is set.
RunWithFailures run_with_failures(const Scenario& scenario, const Point& point,
                                  const StrategyResult& result, const Prediction& prediction);

}  // namespace lockstep
