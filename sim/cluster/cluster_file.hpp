// A cluster's scenario (scenarios/cluster/*.yaml, docs/cluster.md): nodes, trainings, a list of
// jobs, and the policies to compare. Read it by read_cluster() and pass it to cluster_question().
//
// The structs mirror the maps of the file. Members `where` and `*_where` are places in the file,
// for errors that are found after reading. Times are seconds.
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

// `cluster:`, the hardware: equal nodes of one platform.
struct NodesSpec {
  std::string platform;
  int nodes = 1;
  Location platform_where, nodes_where;
};

// `elastic:` of a workload: under the policy of this name, its jobs may run on fewer or more GPUs
// than they ask for.
struct ElasticSpec {
  int least = 1;  // GPUs that a job can start with
  int most = 0;   // 0 = the job's requested count
  // Seconds without training whenever the job's GPUs change.
  double pause = 0;
};

// An entry of `workloads:`, one kind of training that jobs refer to by its name.
struct KindSpec {
  Node training;  // a scenario without name, platform and GPUs
  // If absent, a job of this kind is a gang: it runs on all GPUs that it asks for or not at all.
  std::optional<ElasticSpec> elastic;
  // `restart`: seconds between the moment at which an evicted job gets GPUs and its next step.
  // `checkpoint_period`: seconds of training between checkpoints; 0 = an evicted job saves its
  // state and loses nothing.
  double restart = 0, checkpoint_period = 0;
  // Seconds for which a job stops: `switching` when its turn begins, `migration` when it moves to
  // other GPUs. If absent, they follow from the bytes of its state and the speed of the links.
  std::optional<double> switching, migration;
  Location where;
};

// An entry of `jobs:`. Generated jobs and jobs of a trace also become entries of this type.
struct JobSpec {
  std::string name;
  std::string workload;
  // Seconds after the beginning of the simulation.
  double submit = 0;
  int gpus = 1;
  // The job's length: seconds on the GPUs that it asks for, or samples to train on. Exactly one of
  // the two is not 0.
  double duration = 0, samples = 0;
  // Time limit in seconds on the GPUs that the job asks for. The scheduler plans with it in place
  // of the length; 0 = the scheduler knows the true length.
  double limit = 0;
  int priority = 0;  // higher ones stand first in line
  Location where, gpus_where, workload_where;
};

// `trace:`, jobs of a real cluster in the format of Slurm's `sacct` (sacct.hpp).
struct TraceSpec {
  std::string file;
  std::string workload;   // of jobs whose JobName is no workload; "" = such jobs are an error
  std::string partition;  // "" = all
  Location where;
};

// The distribution of the lengths of generated jobs, in seconds on the GPUs that they ask for.
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

// An entry of `generated.mix`: one type of job and its share of all jobs.
struct MixSpec {
  std::string workload;
  double weight = 1;         // relative to the sum of all weights
  std::vector<int> gpus{1};  // each count is drawn equally often
  Length duration;
  Location where, gpus_where, workload_where;
};

// `generated:`, jobs that arrive at random (a Poisson process).
struct GeneratedSpec {
  int count = 100;      // jobs
  double per_hour = 1;  // mean arrivals per hour
  std::int64_t seed = 1;
  std::vector<MixSpec> mix;
};

// `preemption:`, the threshold of the policy of this name.
struct PreemptionSpec {
  double after = 3600;  // GPU-seconds after which newer jobs may evict a job
};

// `time_slicing:`, the turns of the policy of this name.
struct TimeSlicingSpec {
  double slice = 60;  // seconds of training in a turn
};

// The whole file. Exactly one of `jobs`, `trace` and `generated` is given.
struct ClusterFile {
  std::string name, description;
  NodesSpec cluster;
  // By name; std::map keeps them sorted, and question.cpp relies on that order.
  std::map<std::string, KindSpec> workloads;
  std::vector<JobSpec> jobs;
  std::optional<TraceSpec> trace;
  std::optional<GeneratedSpec> generated;
  // The first policy is the baseline that the gains of all others are counted against.
  std::vector<Policy> policies{Policy::fifo, Policy::backfill, Policy::preemption, Policy::elastic};
  std::optional<PreemptionSpec> preemption;  // absent = its defaults
  std::optional<TimeSlicingSpec> time_slicing;
  Location slicing_where;

  // Path of the file, as it was passed to read_cluster().
  std::string file;
};

// Reads a file, or a text as if it stood in `file_name`. Throws ConfigError with all errors of the
// file.
ClusterFile read_cluster(const std::string& path);
ClusterFile read_cluster_text(std::string_view text, const std::string& file_name);
std::vector<std::string> shipped_clusters();  // paths of scenarios/cluster/*.yaml, sorted

}  // namespace lockstep
