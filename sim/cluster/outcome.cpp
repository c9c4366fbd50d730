// Computes waits, completion times, utilisation and the other results of a schedule, and the gains
// of a policy, by the formulas of docs/cluster.md. Quantiles come from core/statistics.hpp.
#include "cluster/outcome.hpp"

#include <algorithm>

#include "core/statistics.hpp"

namespace lockstep {

namespace {

Spread spread(const std::vector<double>& values) {
  return {mean(values), median(values), quantile(values, 0.9)};
}

}  // namespace

// `held`, `lost` and `idle` are GPU-seconds of all jobs. `all` is the GPU time of the cluster from
// the first submission to the last end; it is the denominator of utilisation and fragmentation.
PolicyOutcome outcome_of(Policy policy, const ClusterSize& size,
                         const std::vector<ClusterJob>& jobs, const Schedule& schedule) {
  PolicyOutcome outcome;
  outcome.policy = policy;
  outcome.jobs = schedule.jobs;
  if (jobs.empty()) return outcome;
  std::vector<double> queueing, completion;
  double first = jobs.front().submit, last = 0, held = 0, lost = 0, idle = 0;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const JobRun& run = schedule.jobs[i];
    queueing.push_back(run.started - jobs[i].submit);
    completion.push_back(run.ended - jobs[i].submit);
    first = std::min(first, jobs[i].submit);
    last = std::max(last, run.ended);
    held += run.gpu_seconds;
    lost += run.lost_gpu_seconds;
    idle += run.idle_gpu_seconds;
    outcome.evictions += run.evictions;
    outcome.resizes += run.resizes;
    outcome.migrations += run.migrations;
  }
  outcome.queueing = spread(queueing);
  outcome.completion = spread(completion);
  outcome.makespan = last - first;
  const double all = outcome.makespan * size.nodes * size.gpus_per_node;
  outcome.utilisation = held / all;
  outcome.fragmentation = schedule.fragmented_gpu_seconds / all;
  outcome.lost = lost / held;
  outcome.idle = idle / held;
  return outcome;
}

// A job gains or loses if its completion differs by more than 1 % from that under the baseline;
// smaller differences count as equal.
Gain gain_of(std::size_t kind, const std::vector<ClusterJob>& jobs, const PolicyOutcome& outcome,
             const PolicyOutcome& against) {
  Gain gain;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (jobs[i].kind != kind) continue;
    const double now = outcome.jobs[i].ended - jobs[i].submit;
    const double then = against.jobs[i].ended - jobs[i].submit;
    ++gain.jobs;
    gain.sooner += now < 0.99 * then;
    gain.later += now > 1.01 * then;
    gain.completion += now;
  }
  gain.completion /= std::max(1, gain.jobs);
  return gain;
}

}  // namespace lockstep
