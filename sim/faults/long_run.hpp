// A training run of days, event by event: training, checkpoints, failures, restarts. Scenarios with
// `faults` use it, above simulated steps: the speed with each number of nodes comes from the
// simulation of steps, and points/faults.cpp fills a LongRun.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "faults/failures.hpp"
#include "faults/options.hpp"
#include "results/record.hpp"

namespace lockstep {

// Copies of the state in the memory of hosts. Each host holds its own share and the shares of the
// others in its group (Wang et al., "Gemini: Fast Failure Recovery in Distributed Training with
// In-Memory Checkpoints", SOSP 2023). The copies are sent while the network is idle.
struct MemoryCopies {
  int copies = 0;  // hosts that hold each share, its own among them; 0 = none
  double steps_between = std::numeric_limits<double>::infinity();
  double seconds = 0;        // of a copy beside training, until every host has its shares
  double load_seconds = 0;   // of a restart: from the own host's memory to its devices
  double fetch_seconds = 0;  // before that if hosts were lost: from another host
};

// The plan of a run: one job, its failures and its checkpoints. Plain values in seconds and
// optimizer steps.
struct LongRun {
  double steps = 0;  // of the whole run, as all nodes count them
  // Steps of all nodes per second, by number of participating nodes; 0 = too few nodes. The last
  // entry is for all nodes.
  std::vector<double> steps_per_second;
  // A lost node stops no other node and loses no work; a returning node joins at once.
  bool independent_workers = false;
  // To write and to read a checkpoint in storage.
  double write_seconds = 0, read_seconds = 0;
  // Seconds that training stands still while the state is copied to the hosts' memory; the write to
  // storage then runs beside training. Absent = training stands still for the whole write.
  std::optional<double> copy_seconds;
  double speed_while_writing = 1;        // relative to the normal speed; above 0
  double steps_between_checkpoints = 0;  // infinity = none
  MemoryCopies memory;
  // Nodes of a replica that fails and returns while the others continue (Salpekar et al., "Training
  // LLMs with Fault Tolerant HSDP on 100,000 GPUs", 2026); 0 = no replicas.
  int replica_nodes = 0;
  double catch_up_seconds = 0;      // of one that is back, to fetch the state from another
  double speed_with_slow_node = 1;  // relative to the normal speed
  // Independent workers: number of workers' nodes that keep the state (servers beside workers). The
  // loss of such a node stops all others.
  int state_nodes = 0;
  int servers = 0;  // on hosts of their own
  int workers_per_node = 1;
  // Workers of the job, whose last node may not be full; 0 = all nodes are full.
  int workers = 0;
  FailureSpeeds speeds;
  Faults faults;

  // Whether a lost node, with its replica, returns without a restart of the others.
  bool nodes_come_back_alone() const { return independent_workers || replica_nodes > 0; }
  int workers_of(int node) const;    // number of workers on the node
  double workers_of_a_node() const;  // on average
  int nodes() const { return static_cast<int>(steps_per_second.size()) - 1; }
  // The run's time without failures, checkpoints included.
  double failure_free_seconds() const;
};

// The outcome of one run. The parts of the run's time (training, lost, checkpoints, down, waiting)
// add up to `seconds`.
struct LongRunResult {
  bool finished = false;  // within `most_times` of failure_free_seconds()
  double seconds = 0;
  double steps = 0;        // done and not lost
  double training = 0;     // on these steps
  double lost = 0;         // on steps that were trained again
  double checkpoints = 0;  // training stands still for them
  double down = 0;         // detection, restart, reading
  double waiting = 0;      // for nodes
  int failures = 0;
  int interruptions = 0;    // failures that stopped the job, even for a while, or its restart
  int evictions = 0;        // slow nodes that were replaced
  int memory_restarts = 0;  // restarts that read the state from hosts' memory
  double node_seconds = 0;  // of nodes that take part, over the whole run
  double away_seconds = 0;  // of GPUs on nodes that have left or have not joined yet
};
// A run is given up after this many times its failure-free time.
inline constexpr double most_times = 100;

// Plays one run. `run` is the number of the repetition, a part of the key of every draw.
LongRunResult play(const LongRun& plan, std::uint64_t seed, int run);

// Seconds of work between two checkpoints that minimize the run's time, to higher order (Daly, "A
// higher order estimate of the optimum checkpoint interval for restart dumps", 2006; its first term
// is Young's sqrt(2 write M), 1974). Without failures (M infinite) the result is infinite.
double best_checkpoint_period(double write_seconds, double mean_time_between_failures);

// Plays plan.faults.runs runs, and more as plan.faults.until asks for, and returns means and
// intervals. The caller adds the figures of checkpoints and the price.
RunWithFailures play_all(const LongRun& plan, std::uint64_t seed);

}  // namespace lockstep
