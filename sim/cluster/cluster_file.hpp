// A cluster's scenario (scenarios/cluster/*.yaml, docs/cluster.md): nodes, trainings, a list of
// jobs, and the policies to compare. Read it by read_cluster() and pass it to cluster_question().
#pragma once

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "cluster/schedule.hpp"
#include "core/errors.hpp"
#include "core/yaml.hpp"

namespace lockstep {

struct NodesSpec {
  std::string platform;
  int nodes = 1;
  Location platform_where, nodes_where;
};

struct ElasticSpec {
  int least = 1;
  int most = 0;  // 0 = the job's requested count
  double pause = 0;
};

struct KindSpec {
  Node training;  // a scenario without name, platform and GPUs
  std::optional<ElasticSpec> elastic;
  double restart = 0, checkpoint_period = 0;
  std::optional<double> switching, migration;  // seconds; none = from its state and the links
  Location where;
};

struct JobSpec {
  std::string name;
  std::string workload;
  double submit = 0;
  int gpus = 1;
  double duration = 0, samples = 0;  // exactly one
  double limit = 0;
  int priority = 0;
  Location where, gpus_where, workload_where;
};

struct TraceSpec {
  std::string file;
  std::string workload;   // of jobs with another JobName; "" = such jobs are an error
  std::string partition;  // "" = all
  Location where;
};

struct FixedLength {
  double seconds = 0;
};
struct ExponentialLength {
  double mean = 0;
};
struct LognormalLength {
  double median = 0;
  double sigma = 1;
};
using Length = std::variant<FixedLength, ExponentialLength, LognormalLength>;
template <>
struct AlternativeNames<Length> {
  static constexpr std::array names{"fixed", "exponential", "lognormal"};
};

struct MixSpec {
  std::string workload;
  double weight = 1;
  std::vector<int> gpus{1};
  Length duration;
  Location where, gpus_where, workload_where;
};

struct GeneratedSpec {
  int count = 100;
  double per_hour = 1;
  std::int64_t seed = 1;
  std::vector<MixSpec> mix;
};

struct PreemptionSpec {
  double after = 3600;  // GPU-seconds
};

struct TimeSlicingSpec {
  double slice = 60;  // seconds
};

struct ClusterFile {
  std::string name, description;
  NodesSpec cluster;
  std::map<std::string, KindSpec> workloads;
  std::vector<JobSpec> jobs;
  std::optional<TraceSpec> trace;
  std::optional<GeneratedSpec> generated;
  std::vector<Policy> policies{Policy::fifo, Policy::backfill, Policy::preemption, Policy::elastic};
  std::optional<PreemptionSpec> preemption;  // none = its defaults
  std::optional<TimeSlicingSpec> time_slicing;
  Location slicing_where;

  std::string file;
};

// Throw ConfigError with all errors of the file.
ClusterFile read_cluster(const std::string& path);
ClusterFile read_cluster_text(std::string_view text, const std::string& file_name);
std::vector<std::string> shipped_clusters();  // paths of all, sorted

}  // namespace lockstep
