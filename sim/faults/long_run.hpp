// A training run of days, played event by event: training, checkpoints, failures, restarts. It is
// used for scenarios with `faults`, on top of simulated steps: points/faults.cpp fills a LongRun
// with the speed that the simulation of steps gives for each number of nodes.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "faults/failures.hpp"
#include "faults/options.hpp"
#include "results/record.hpp"

namespace lockstep {

// Copies of the training state in the memory of hosts. Each host holds its own share of the state
// and the shares of the other hosts in its group (Wang et al., "Gemini: Fast Failure Recovery in
// Distributed Training with In-Memory Checkpoints", SOSP 2023). The copies are sent while the
// network is idle.
struct MemoryCopies {
  int copies = 0;  // number of hosts that hold each share, including the share's own host; 0 = none
  double steps_between = std::numeric_limits<double>::infinity();
  double seconds = 0;        // duration of a copy beside training, until every host has its shares
  double load_seconds = 0;   // part of a restart: from the own host's memory to its devices
  double fetch_seconds = 0;  // before loading, if hosts were lost: from another host's memory
};

// The plan of a run: one job, its failures and its checkpoints. Durations are in seconds, progress
// in optimizer steps.
struct LongRun {
  // Optimizer steps of the whole run.
  double steps = 0;
  // Optimizer steps per second of all nodes together, by number of participating nodes. 0 = these
  // nodes are too few. The last entry is for all nodes.
  std::vector<double> steps_per_second;
  // If a node is lost, no other node stops and no work is lost, unless the node holds the state
  // (`state_nodes`). A returning node joins at once.
  bool independent_workers = false;
  // Seconds to write and to read a checkpoint in storage.
  double write_seconds = 0, read_seconds = 0;
  // Seconds in which training stands still while the state is copied to the hosts' memory; the
  // write to storage then runs beside training. Absent = training stands still for the whole write.
  std::optional<double> copy_seconds;
  double speed_while_writing = 1;        // relative to the normal speed; above 0
  double steps_between_checkpoints = 0;  // infinity = none
  MemoryCopies memory;
  // Number of nodes of a replica. A replica that fails returns while the others continue (Salpekar
  // et al., "Training LLMs with Fault Tolerant HSDP on 100,000 GPUs", 2026). 0 = no replicas.
  int replica_nodes = 0;
  // Time of a returning replica to fetch the state from another replica.
  double catch_up_seconds = 0;
  double speed_with_slow_node = 1;  // relative to the normal speed
  // Independent workers: number of workers' nodes that hold the state, because servers run beside
  // the workers. The loss of such a node stops all other nodes.
  int state_nodes = 0;
  int servers = 0;  // number of servers on hosts of their own
  int workers_per_node = 1;
  // Number of workers of the job, whose last node may not be full; 0 = all nodes are full.
  int workers = 0;
  FailureSpeeds speeds;
  Faults faults;

  // Whether a lost node returns without a restart of the other nodes; with replicas, its whole
  // replica restarts. Exceptions: the node holds the state (`state_nodes`), or no replica is left.
  bool nodes_come_back_alone() const { return independent_workers || replica_nodes > 0; }
  int workers_of(int node) const;    // number of workers on the node; spare nodes count as full
  double workers_of_a_node() const;  // on average
  int nodes() const { return static_cast<int>(steps_per_second.size()) - 1; }
  // Seconds of the run without failures, including its checkpoints.
  double failure_free_seconds() const;
};

// The outcome of one run. The times training, lost, checkpoints, down and waiting add up to
// `seconds`.
struct LongRunResult {
  bool finished = false;  // within `most_times` times failure_free_seconds()
  double seconds = 0;
  double steps = 0;        // completed and not lost
  double training = 0;     // time spent on these steps
  double lost = 0;         // time spent on steps that a failure, or giving up, made void
  double checkpoints = 0;  // training stands still for them
  double down = 0;         // time of detection, restart, reading and regrouping replicas
  double waiting = 0;      // time of waiting for nodes or replicas
  int failures = 0;        // nodes that leave with notice or become slow are not counted
  // Failures that stopped the job, even for a short time, or interrupted its restart.
  int interruptions = 0;
  int evictions = 0;        // slow nodes that were replaced
  int memory_restarts = 0;  // completed restarts that read the state from hosts' memory
  double node_seconds = 0;  // seconds of nodes in use (of training replicas), summed over nodes
  // Seconds of GPUs on nodes that have left or have not joined yet, summed over GPUs.
  double away_seconds = 0;
};
// A run is given up after this many times its failure-free time.
inline constexpr double most_times = 100;

// Plays one run. `run` is the number of the repetition, which is part of the key of every draw.
LongRunResult play(const LongRun& plan, std::uint64_t seed, int run);

// The interval between checkpoints, in seconds of work, that approximately minimises the run's
// time. Let w be the seconds of a write, and M the mean time between failures. Young (1974)
// estimates sqrt(2 w M); the result is Daly's estimate of higher order ("A higher order estimate of
// the optimum checkpoint interval for restart dumps", 2006). Infinite if M is infinite.
double best_checkpoint_period(double write_seconds, double mean_time_between_failures);

// Plays plan.faults.runs runs, and more if plan.faults.until requires them. Returns means and
// intervals. The caller adds the sizes and durations of single checkpoints and copies, and the
// price.
RunWithFailures play_all(const LongRun& plan, std::uint64_t seed);

}  // namespace lockstep
