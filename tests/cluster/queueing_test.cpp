// Do jobs wait as long as queueing theory says? Each job fills the only node, so the cluster is a
// single server.
#include <gmock/gmock.h>

#include "cluster/generated.hpp"
#include "cluster/outcome.hpp"
#include "jobs.hpp"

namespace lockstep::queueing_test {
namespace {

// The mean waiting time of 400,000 jobs; the only GPU is busy for the share `load` of the time.
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

// For equal lengths the mean wait is load x length / (2 (1 - load)) (Pollaczek and Khinchine).
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

// If every job fills the cluster, no job can overtake another.
TEST(Queueing, BackfillAndElasticityChangeNothingWhereEveryJobFillsTheCluster) {
  const double fifo = mean_waiting(FixedLength{100}, 100, 0.5, Policy::fifo);
  EXPECT_EQ(mean_waiting(FixedLength{100}, 100, 0.5, Policy::backfill), fifo);
  EXPECT_EQ(mean_waiting(FixedLength{100}, 100, 0.5, Policy::elastic), fifo);
}

}  // namespace
}  // namespace lockstep::queueing_test
