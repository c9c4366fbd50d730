// The schedule of a list of jobs on one cluster under one policy: start, end and GPUs of each job.
// Training does not appear here: a job is an amount of work, and has a speed at each GPU count.
// question.cpp calls it once per policy, with simulated speeds (docs/cluster.md).
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

// Seconds. Times closer together than this count as equal, because conversions between work and
// time round.
inline constexpr double same_moment = 1e-6;

// The rule by which waiting jobs get GPUs; docs/cluster.md has the sources.
enum class Policy {
  fifo,          // the first in line starts when it fits; no job overtakes
  backfill,      // other jobs overtake if they cannot delay the first in line (EASY)
  preemption,    // jobs with few GPU-seconds so far, or a higher priority, evict others
  elastic,       // backfill, and elastic jobs grow into idle GPUs and give them back
  time_slicing,  // jobs take turns on the same GPUs, each as a gang
  migration,     // backfill, and running jobs move to make room for the first in line
};
template <>
struct EnumNames<Policy> {
  static constexpr std::array names{"fifo",    "backfill",     "preemption",
                                    "elastic", "time_slicing", "migration"};
};

struct ClusterSize {
  int nodes = 1, gpus_per_node = 1;
};

// A kind of training: its speeds, and how its jobs may be resized and evicted.
struct JobKind {
  std::string name;
  // Work per second by GPU count, for every count that a job of this kind may have.
  std::map<int, double> rates;
  // Elastic jobs run on any of sizes_of(); all others are gangs.
  bool elastic = false;
  // The smallest GPU count of an elastic job, and the largest; `most` 0 = the requested count.
  int least = 1;
  int most = 0;
  // Seconds without training whenever the GPUs of an elastic job change.
  double pause = 0;
  // Policy::preemption: seconds before an evicted job trains again once it has GPUs.
  double restart = 0;
  // Policy::preemption: seconds of training between checkpoints; 0 = an evicted job saves all its
  // work.
  double checkpoint_period = 0;
};

// One job. Times are seconds after the beginning of the simulation.
struct ClusterJob {
  std::string name;
  // Index into the kinds.
  std::size_t kind = 0;
  double submit = 0;
  // GPUs that the job asks for.
  int gpus = 1;
  // Work until the job ends, in the unit of its kind's rates (samples).
  double work = 0;
  // Time limit in seconds on `gpus`, with which the scheduler plans; 0 = it knows the true length.
  double limit = 0;
  // Higher priorities stand first in line.
  int priority = 0;
  // Seconds for which the job stops when it takes over GPUs from another job, or returns to its own
  // after a suspension: one job's state is copied into the host's memory, the other's is copied
  // back.
  double switching = 0;
  // Seconds for which the job stops when it moves to other GPUs.
  double migration = 0;
};

// A period in which one job holds the same GPUs without interruption. Only tests use it.
struct Span {
  std::size_t job = 0;
  double begin = 0, end = 0;
  int gpus = 0;
  // `work`: work that was done and is not lost. `lost`: work that must be done a second time.
  double work = 0;
  double lost = 0;
  Allocation placed;
};

// The course of one job. Times are seconds after the beginning of the simulation.
struct JobRun {
  double started = 0, ended = 0;
  // Seconds without GPUs, including the waits after evictions.
  double waited = 0;
  // GPU-seconds held by the job.
  double gpu_seconds = 0;
  // Part of `gpu_seconds` whose work an eviction lost, so that it was done a second time.
  double lost_gpu_seconds = 0;
  // Part of `gpu_seconds` in restarts, pauses, switches and moves.
  double idle_gpu_seconds = 0;
  // `evictions` includes turns that end because another job takes the GPUs.
  int evictions = 0, resizes = 0, migrations = 0;
};

struct Schedule {
  // In the order of the jobs passed in.
  std::vector<JobRun> jobs;
  // GPU-seconds that were free although they were enough for the first job in line.
  double fragmented_gpu_seconds = 0;
};

// The policy with its thresholds, and callbacks for tests.
struct ScheduleOptions {
  Policy policy = Policy::fifo;
  // Policy::preemption: GPU-seconds after which jobs of equal priority may evict a job.
  double service_before_eviction = 3600;
  // Policy::time_slicing: seconds of training in a turn.
  double slice = 60;
  // Called with each span when it ends.
  std::function<void(const Span&)> on_span{};
  // Called when a reservation is made: `job`, the first in line, will have started by `time` unless
  // a job of higher priority arrives.
  std::function<void(std::size_t job, double time)> on_reservation{};
};

// The GPU counts that a job may have, ascending. An elastic job may have its minimum times a power
// of two, its maximum, and the requested count `gpus` (at most the maximum). Any other job has only
// the requested count.
std::vector<int> sizes_of(const JobKind& kind, int gpus);

// Simulates all jobs until the last one ends.
// REQUIRES: every job fits into the cluster, and its kind has a positive rate at each of its sizes.
Schedule schedule(const ClusterSize& size, const std::vector<JobKind>& kinds,
                  const std::vector<ClusterJob>& jobs, const ScheduleOptions& options);

}  // namespace lockstep
