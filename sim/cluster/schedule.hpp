// A list of jobs under one scheduling policy: start, end and GPUs of each job. Knows nothing of
// training: a job is work, and a speed at each GPU count (docs/cluster.md). Knows nothing of
// training: a job is work, and a speed at each GPU count.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "cluster/nodes.hpp"
#include "core/fields.hpp"

namespace lockstep {

// Seconds. Times closer than this are one moment, because conversions between work and time round.
inline constexpr double same_moment = 1e-6;

enum class Policy {
  fifo,          // the first in line starts when it fits; no job overtakes
  backfill,      // others start early where that cannot delay the first in line (EASY)
  preemption,    // jobs that have had little evict jobs that have had much
  elastic,       // backfill; elastic jobs start small, grow into idle GPUs, and give them back
  time_slicing,  // jobs take turns on the same GPUs, each as a gang
  migration,     // backfill, where running jobs move together to make room for the first in line
};
template <>
struct EnumNames<Policy> {
  static constexpr std::array names{"fifo",    "backfill",     "preemption",
                                    "elastic", "time_slicing", "migration"};
};

struct ClusterSize {
  int nodes = 1, gpus_per_node = 1;
};

struct JobKind {
  std::string name;
  std::map<int, double> rates;  // work per second, by GPUs: all counts that a job may have
  bool elastic = false;
  int least = 1;                 // GPUs of an elastic job,
  int most = 0;                  // at most; 0 = the requested count
  double pause = 0;              // seconds that a change of its GPUs costs an elastic job
  double restart = 0;            // seconds before an evicted job trains again once it has GPUs
  double checkpoint_period = 0;  // of running; 0 = an evicted job saves all it has done
};

struct ClusterJob {
  std::string name;
  std::size_t kind = 0;
  double submit = 0;
  int gpus = 1;      // that it asks for
  double work = 0;   // in the unit of its kind's rates
  double limit = 0;  // seconds on `gpus` known to the scheduler; 0 = the true length
  int priority = 0;  // higher first
  // Seconds that a job stands still when it gets GPUs that another job leaves, or its own after a
  // suspension: one state is copied into the host's memory, the other is copied back.
  double switching = 0;
  double migration = 0;  // seconds that it stands still to go on on other GPUs
};

// A job on the same GPUs, without interruption.
struct Span {
  std::size_t job = 0;
  double begin = 0, end = 0;
  int gpus = 0;
  double work = 0;  // done and kept
  double lost = 0;  // done again later
  Allocation placed;
};

struct JobRun {
  double started = 0, ended = 0;
  double waited = 0;                               // without GPUs, after evictions too
  double gpu_seconds = 0;                          // held,
  double lost_gpu_seconds = 0;                     // of which for work that was done again,
  double idle_gpu_seconds = 0;                     // and during restarts and pauses
  int evictions = 0, resizes = 0, migrations = 0;  // the end of a turn is an eviction
};

struct Schedule {
  std::vector<JobRun> jobs;  // as asked
  // GPU-seconds that were free although they were enough for the first job in line.
  double fragmented_gpu_seconds = 0;
};

struct ScheduleOptions {
  Policy policy = Policy::fifo;
  double service_before_eviction = 3600;  // GPU-seconds (Policy::preemption)
  double slice = 60;                      // seconds of training (Policy::time_slicing)
  std::function<void(const Span&)> on_span{};
  // The first job in line will have started by `time`, unless a job of higher priority comes.
  std::function<void(std::size_t job, double time)> on_reservation{};
};

// The GPU counts that an elastic job may have, ascending: doublings of the minimum, the maximum,
// and the requested count, which is at most the maximum. For any other job: the requested count.
std::vector<int> sizes_of(const JobKind& kind, int gpus);

// Every job must fit into the cluster, and its kind must have a rate for each of its sizes.
Schedule schedule(const ClusterSize& size, const std::vector<JobKind>& kinds,
                  const std::vector<ClusterJob>& jobs, const ScheduleOptions& options);

}  // namespace lockstep
