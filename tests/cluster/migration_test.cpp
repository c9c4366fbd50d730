// Do jobs migrate if a wide job can then start, at the right price, and only if it pays?
#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include "jobs.hpp"

namespace lockstep::migration_test {
namespace {

// Two nodes of four GPUs hold two jobs each. At 12 s one job of each pair has ended, so that two
// GPUs are free on each node.
std::vector<ClusterJob> scattered(int wide, double migration) {
  std::vector<ClusterJob> jobs{job_of(0, 2, 10), job_of(0, 2, 100), job_of(1, 2, 110),
                               job_of(1, 2, 11), job_of(20, wide, 50)};
  for (ClusterJob& job : jobs) job.migration = migration;
  return jobs;
}

Watched scheduled(const std::vector<ClusterJob>& jobs, Policy policy) {
  return watched({2, 4}, {linear_kind(8)}, jobs, policy);
}

TEST(Migration, AWideJobStartsAtOnceWhereOthersMoveTogether) {
  for (const int wide : {3, 4}) {
    const auto jobs = scattered(wide, 5);
    const auto waits = scheduled(jobs, Policy::backfill).schedule;
    EXPECT_EQ(waits.jobs[4].started, 100);
    EXPECT_NEAR(waits.fragmented_gpu_seconds, 80 * 4, 1e-9);
    const auto moves = scheduled(jobs, Policy::migration).schedule;
    EXPECT_EQ(moves.jobs[4].started, 20);
    EXPECT_EQ(moves.fragmented_gpu_seconds, 0);
    int migrations = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      migrations += moves.jobs[i].migrations;
      // Each migration delays a job by exactly its stop of 5 s.
      EXPECT_NEAR(moves.jobs[i].ended, waits.jobs[i].ended + 5 * moves.jobs[i].migrations, 1e-9);
      EXPECT_NEAR(moves.jobs[i].idle_gpu_seconds, 2 * 5 * moves.jobs[i].migrations, 1e-9);
    }
    EXPECT_EQ(migrations, 1);
  }
}

// A migration stops two GPUs. It pays as long as this costs less than four GPUs that wait for 80 s.
TEST(Migration, OnlyWhereItIsWorthMoreThanItCosts) {
  EXPECT_EQ(scheduled(scattered(4, 159.9), Policy::migration).schedule.jobs[4].started, 20);
  EXPECT_EQ(scheduled(scattered(4, 160), Policy::migration).schedule.jobs[4].started, 100);
}

// Jobs from two nodes migrate onto the third node, so that the wide job gets two whole nodes.
TEST(Migration, ManyMoveForAWiderJob) {
  std::vector<ClusterJob> jobs;
  for (int i = 0; i < 3; ++i) {
    jobs.push_back(job_of(0, 3, 10));
    jobs.push_back(job_of(1, 1, 1000));
  }
  jobs.push_back(job_of(20, 8, 50));
  for (ClusterJob& job : jobs) job.migration = 2;
  const auto run = watched({3, 4}, {linear_kind(8)}, jobs, Policy::migration).schedule.jobs;
  EXPECT_EQ(run[6].started, 20);
  EXPECT_EQ(run[1].migrations + run[3].migrations + run[5].migrations, 2);
}

// Jobs move only if a job in line needs it; otherwise the schedule is backfill to the last bit.
RC_GTEST_PROP(Migration, WithoutMovesItIsBackfill, ()) {
  std::vector<ClusterJob> jobs;
  double now = 0;
  for (int i = *rc::gen::inRange(1, 40); i > 0; --i) {
    now += *rc::gen::inRange(1, 3000) / 37.0;
    jobs.push_back(job_of(now, *rc::gen::inRange(1, 17), *rc::gen::inRange(1, 20'000) / 53.0));
    jobs.back().migration = 1e6;
  }
  const Watched a = watched({4, 4}, {linear_kind(16)}, jobs, Policy::backfill);
  const Watched b = watched({4, 4}, {linear_kind(16)}, jobs, Policy::migration);
  RC_ASSERT(a.spans.size() == b.spans.size());
  for (std::size_t i = 0; i < a.spans.size(); ++i) {
    RC_ASSERT(a.spans[i].begin == b.spans[i].begin && a.spans[i].end == b.spans[i].end);
  }
}

// If the scheduler knows the lengths of jobs, migrations never delay the first job in line beyond
// its reservation.
RC_GTEST_PROP(Migration, TheFirstInLineStartsNoLaterThanPromised, ()) {
  std::vector<ClusterJob> jobs;
  double now = 0;
  for (int i = *rc::gen::inRange(1, 40); i > 0; --i) {
    now += *rc::gen::inRange(1, 3000) / 37.0;
    jobs.push_back(job_of(now, *rc::gen::inRange(1, 17), *rc::gen::inRange(1, 20'000) / 53.0));
    jobs.back().migration = *rc::gen::inRange(0, 30);
  }
  const Watched w = watched({4, 4}, {linear_kind(16)}, jobs, Policy::migration);
  for (const auto& [job, time] : w.promised) {
    RC_ASSERT(w.schedule.jobs[job].started <= time + 1e-6);
  }
}

}  // namespace
}  // namespace lockstep::migration_test
