// The results of a schedule (waits, makespan, utilisation and others), for the table, JSON and CSV
// of `lockstep cluster`. answer_cluster() computes them for each policy. docs/cluster.md has the
// formulas.
#pragma once

#include <vector>

#include "cluster/schedule.hpp"

namespace lockstep {

// Mean, median and 90th percentile of a time over all jobs, in seconds.
struct Spread {
  double mean = 0, median = 0, p90 = 0;
};

// How one policy serves all jobs. Shares are fractions (0.5 = 50 %).
struct PolicyOutcome {
  Policy policy = Policy::fifo;
  Spread queueing;      // seconds from submission to the first start
  Spread completion;    // seconds from submission to the end
  double makespan = 0;  // seconds from the first submission to the last end
  // GPU time held by jobs / (GPUs of the cluster x makespan).
  double utilisation = 0;
  // GPU time that was free although enough GPUs for the first job in line were free (they were
  // scattered over nodes), over the same denominator.
  double fragmentation = 0;
  // GPU time of work that an eviction lost, over the GPU time held.
  double lost = 0;
  // GPU time of restarts, pauses, switches and moves, over the GPU time held.
  double idle = 0;
  int evictions = 0, resizes = 0, migrations = 0;
  // One per job, in the order of the question's jobs.
  std::vector<JobRun> jobs;
};

// REQUIRES: `schedule` is the schedule of `jobs` on a cluster of this size.
PolicyOutcome outcome_of(Policy policy, const ClusterSize& size,
                         const std::vector<ClusterJob>& jobs, const Schedule& schedule);

// Compares the jobs of one kind under one policy with the same jobs under the baseline policy.
struct Gain {
  // `sooner`, `later`: jobs that complete more than 1 % earlier or later than under the baseline.
  int jobs = 0, sooner = 0, later = 0;
  // Mean seconds from submission to end, under the policy itself.
  double completion = 0;
};
// REQUIRES: both outcomes are of the same `jobs`.
Gain gain_of(std::size_t kind, const std::vector<ClusterJob>& jobs, const PolicyOutcome& outcome,
             const PolicyOutcome& against);

}  // namespace lockstep
