// The figures of a schedule. Computed after schedule() and printed for each policy. Formulas:
// docs/cluster.md.
#pragma once

#include <vector>

#include "cluster/schedule.hpp"

namespace lockstep {

struct Spread {
  double mean = 0, median = 0, p90 = 0;
};

struct PolicyOutcome {
  Policy policy = Policy::fifo;
  Spread queueing;    // seconds from submission to the first start
  Spread completion;  // to the end
  double makespan = 0;
  double utilisation = 0;    // GPU time held, over the time until the last job ends
  double fragmentation = 0;  // GPU time free although the first in line asked for no more, likewise
  double lost = 0;           // GPU time of repeated work, over GPU time held
  double idle = 0;           // GPU time of restarts and pauses, likewise
  int evictions = 0, resizes = 0, migrations = 0;
  std::vector<JobRun> jobs;
};

PolicyOutcome outcome_of(Policy policy, const ClusterSize& size,
                         const std::vector<ClusterJob>& jobs, const Schedule& schedule);

// Jobs of one kind under one policy, against another policy.
struct Gain {
  int jobs = 0, sooner = 0, later = 0;  // by more than 1 %
  double completion = 0;                // mean seconds
};
Gain gain_of(std::size_t kind, const std::vector<ClusterJob>& jobs, const PolicyOutcome& outcome,
             const PolicyOutcome& against);

}  // namespace lockstep
