// Queues with known waiting times: one job fills the only node.
#include <gmock/gmock.h>

#include "cluster/generated.hpp"
#include "cluster/outcome.hpp"
#include "jobs.hpp"

namespace lockstep::queueing_test {
namespace {

// Mean waiting of 400,000 jobs, each of which takes the only GPU; busy for `load` of the time.
double mean_waiting(const Length& length, double mean_length, double load, Policy policy) {
  GeneratedSpec spec;
  spec.count = 400'000;
  spec.per_hour = 3600 * load / mean_length;
  spec.seed = 7;
  MixSpec mix;
  mix.duration = length;
  spec.mix = {mix};
  std::vector<ClusterJob> jobs;
  for (const JobSpec& drawn : generated_jobs(spec)) {
    jobs.push_back(job_of(drawn.submit, 1, drawn.duration));
  }
  const ClusterSize one{1, 1};
  const Schedule plan = schedule(one, {linear_kind(1)}, jobs, {policy});
  const PolicyOutcome outcome = outcome_of(policy, one, jobs, plan);
  EXPECT_NEAR(outcome.utilisation, load, 0.01 * load);
  EXPECT_EQ(outcome.fragmentation, 0);
  return outcome.queueing.mean;
}

// Pollaczek and Khinchine: load x length / (2 (1 - load)) for equal lengths.
TEST(Queueing, EqualJobsWaitAsInAnMd1Queue) {
  for (const double load : {0.5, 0.7}) {
    const double expected = load * 100 / (2 * (1 - load));
    EXPECT_NEAR(mean_waiting(FixedLength{100}, 100, load, Policy::fifo), expected, 0.02 * expected);
  }
}

TEST(Queueing, ExponentialJobsWaitTwiceAsLong) {
  const double expected = 0.5 * 100 / (1 - 0.5);
  EXPECT_NEAR(mean_waiting(ExponentialLength{100}, 100, 0.5, Policy::fifo), expected,
              0.02 * expected);
}

// If every job fills the cluster, no job can overtake.
TEST(Queueing, BackfillAndElasticityChangeNothingWhereEveryJobFillsTheCluster) {
  const double fifo = mean_waiting(FixedLength{100}, 100, 0.5, Policy::fifo);
  EXPECT_EQ(mean_waiting(FixedLength{100}, 100, 0.5, Policy::backfill), fifo);
  EXPECT_EQ(mean_waiting(FixedLength{100}, 100, 0.5, Policy::elastic), fifo);
}

}  // namespace
}  // namespace lockstep::queueing_test
