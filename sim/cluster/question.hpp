// `lockstep cluster`: a cluster's scenario under each of its policies. Call cluster_question(),
// then answer each policy.
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
  double service_before_eviction = 0, slice = 0;
  std::vector<std::string> warnings;  // of the trainings, each with its workload's name
};

// Whether any policy suspends jobs, to take turns or to move them.
inline bool stops_jobs(const std::vector<Policy>& policies) {
  return std::any_of(policies.begin(), policies.end(), [](Policy policy) {
    return policy == Policy::time_slicing || policy == Policy::migration;
  });
}

// Throws ConfigError, located in the file, its trace or a training.
ClusterQuestion cluster_question(const ClusterFile& file, const RunOptions& options = {});

struct ClusterAnswer {
  ClusterQuestion question;
  std::vector<PolicyOutcome> outcomes;  // by policy, in the question's order
};
ClusterAnswer answer_cluster(const ClusterFile& file, const RunOptions& options = {});

std::string cluster_text(const ClusterAnswer& answer);
std::string cluster_json(const ClusterAnswer& answer);
std::string cluster_csv(const ClusterAnswer& answer);  // a row per policy and job

}  // namespace lockstep
