// Jobs whose speed is proportional to their number of GPUs, and their outcomes. Used by tests of
// schedulers.
#pragma once

#include <algorithm>
#include <map>
#include <vector>

#include "cluster/schedule.hpp"

namespace lockstep {

inline JobKind linear_kind(int most) {
  JobKind kind;
  kind.name = "linear";
  for (int gpus = 1; gpus <= most; ++gpus) kind.rates[gpus] = gpus;
  return kind;
}

inline ClusterJob job_of(double submit, int gpus, double seconds) {
  ClusterJob job;
  job.submit = submit;
  job.gpus = gpus;
  job.work = seconds * gpus;
  return job;
}

// A schedule with all spans of every job and the earliest reservation of each job that had one.
struct Watched {
  Schedule schedule;
  std::vector<Span> spans;
  std::map<std::size_t, double> promised;
};

inline Watched watched(const ClusterSize& size, const std::vector<JobKind>& kinds,
                       const std::vector<ClusterJob>& jobs, Policy policy,
                       double service_before_eviction = 100, double slice = 60) {
  Watched result;
  ScheduleOptions options;
  options.policy = policy;
  options.service_before_eviction = service_before_eviction;
  options.slice = slice;
  options.on_span = [&](const Span& span) { result.spans.push_back(span); };
  options.on_reservation = [&](std::size_t job, double time) {
    const auto [first, is_new] = result.promised.emplace(job, time);
    if (!is_new) first->second = std::min(first->second, time);
  };
  result.schedule = schedule(size, kinds, jobs, options);
  return result;
}

}  // namespace lockstep
