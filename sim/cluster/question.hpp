// Everything that the scheduler of `lockstep cluster` needs: a cluster, its jobs, and the speed of
// every kind of job. answer_cluster() builds this question and simulates every policy; the
// functions at the end render its result.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "cluster/cluster_file.hpp"
#include "cluster/outcome.hpp"
#include "points/simulate.hpp"

namespace lockstep {

// The content of a cluster's scenario, with the simulated speed of every kind of job at every
// possible GPU count; each speed is simulated once.
struct ClusterQuestion {
  std::string name, platform;
  ClusterSize size;
  std::vector<JobKind> kinds;
  std::vector<ClusterJob> jobs;
  std::vector<Policy> policies;
  // `service_before_eviction`: GPU-seconds (Policy::preemption). `slice`: seconds of a turn
  // (Policy::time_slicing).
  double service_before_eviction = 0, slice = 0;
  // Warnings of the simulated trainings, each with its workload's name, and notes on jobs that were
  // left out of a trace.
  std::vector<std::string> warnings;
};

// Whether any policy suspends jobs, to take turns or to move them.
inline bool stops_jobs(const std::vector<Policy>& policies) {
  return std::any_of(policies.begin(), policies.end(), [](Policy policy) {
    return policy == Policy::time_slicing || policy == Policy::migration;
  });
}

// Reads the jobs and simulates all speeds. Throws ConfigError, located in the file, its trace or a
// training, and std::runtime_error if a simulation fails.
ClusterQuestion cluster_question(const ClusterFile& file, const RunOptions& options = {});

// The question with the outcome of each policy.
struct ClusterAnswer {
  ClusterQuestion question;
  // By policy, in the question's order; the first is the baseline.
  std::vector<PolicyOutcome> outcomes;
};
// Calls cluster_question(), then schedule() for each policy. Throws the errors of
// cluster_question().
ClusterAnswer answer_cluster(const ClusterFile& file, const RunOptions& options = {});

// Renders the answer (render.cpp) as tables for people, as one JSON document, or as CSV with one
// row for each policy and job.
std::string cluster_text(const ClusterAnswer& answer);
std::string cluster_json(const ClusterAnswer& answer);
std::string cluster_csv(const ClusterAnswer& answer);

}  // namespace lockstep
