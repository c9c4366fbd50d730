// Does each job that takes turns get its share, and does no job wait longer than a round?
#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>

#include "jobs.hpp"

namespace lockstep::time_slicing_test {
namespace {

constexpr ClusterSize node{1, 4};
constexpr double slice = 60, switching = 0.7;

ClusterJob slicing_job(double submit, int gpus, double seconds, double migration = 5) {
  ClusterJob job = job_of(submit, gpus, seconds);
  job.switching = switching;
  job.migration = migration;
  return job;
}

Watched sliced(const ClusterSize& size, const std::vector<ClusterJob>& jobs) {
  return watched(size, {linear_kind(16)}, jobs, Policy::time_slicing, 0, slice);
}

double trained(const Watched& w, std::size_t job, double until) {
  double work = 0;
  for (const Span& span : w.spans) {
    if (span.job == job && span.end <= until + same_moment) work += span.work / span.gpus;
  }
  return work;
}

// Each of n equal jobs trains for slice / (n (slice + switch)) of the time. Only the very first
// turn has no switch before it.
TEST(TimeSlicing, EqualJobsShareANode) {
  constexpr int turns = 7;
  for (const int n : {2, 3, 6}) {
    const std::vector<ClusterJob> jobs(static_cast<std::size_t>(n),
                                       slicing_job(0, 4, turns * slice));
    const Watched w = sliced(node, jobs);
    const double turn = slice + switching;
    const double cycle = n * turn;
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      const double begun = static_cast<double>(i + 1) * turn - switching;
      EXPECT_NEAR(w.schedule.jobs[i].ended, (turns - 1) * cycle + begun, 1e-9 * cycle) << n;
      EXPECT_EQ(w.schedule.jobs[i].evictions, turns - 1);
      EXPECT_NEAR(w.schedule.jobs[i].idle_gpu_seconds, 4 * switching * (turns - (i == 0 ? 1 : 0)),
                  1e-9 * cycle);
      for (int k = 1; k < turns; ++k) {
        const double until = begun + k * cycle;
        EXPECT_NEAR(trained(w, i, until) - trained(w, i, until - cycle), slice, 1e-9 * cycle);
      }
    }
  }
}

// A late job waits for the end of a turn, not for the end of the queue.
TEST(TimeSlicing, ALateJobIsAtMostARoundAway) {
  std::vector<ClusterJob> jobs(5, slicing_job(0, 4, 3600));
  for (const double late : {1.0, 60.0, 90.5, 333.0, 1000.0}) {
    std::vector<ClusterJob> all = jobs;
    all.push_back(slicing_job(late, 4, 30));
    const double n = static_cast<double>(all.size());
    const JobRun run = sliced(node, all).schedule.jobs.back();
    EXPECT_LE(run.started + switching - late, n * (slice + switching)) << late;
    EXPECT_NEAR(run.ended, run.started + switching + 30, 1e-9);
    const JobRun queued = watched(node, {linear_kind(16)}, all, Policy::fifo).schedule.jobs.back();
    EXPECT_NEAR(queued.started, 5 * 3600, 1e-6);
  }
}

// A job that needs both nodes starts when the turns of both running jobs are over, and both leave
// at once.
TEST(TimeSlicing, AGangSwitchesAsAWhole) {
  const Watched w =
      sliced({2, 4}, {slicing_job(0, 4, 600), slicing_job(25, 4, 600), slicing_job(30, 8, 120)});
  std::vector<double> begins, left;
  for (const Span& span : w.spans) {
    if (span.job == 2) begins.push_back(span.begin);
  }
  ASSERT_EQ(begins.size(), 2U);
  EXPECT_NEAR(begins[0], 85, 1e-9);  // the end of the second job's turn
  for (const Span& span : w.spans) {
    if (span.job != 2 && std::abs(span.end - begins[0]) < 1e-9) left.push_back(span.end);
  }
  EXPECT_EQ(left, (std::vector<double>{begins[0], begins[0]}));
  EXPECT_NEAR(begins[1] - begins[0], 2 * (slice + switching), 1e-9);
  EXPECT_EQ(w.schedule.jobs[0].evictions, 2);
  EXPECT_EQ(w.schedule.jobs[1].evictions, 2);
}

TEST(TimeSlicing, AJobTakesTurnsWithNoneOfLowerPriority) {
  std::vector<ClusterJob> jobs{slicing_job(0, 4, 300), slicing_job(10, 4, 300)};
  jobs[1].priority = 1;
  const auto run = sliced(node, jobs).schedule.jobs;
  EXPECT_EQ(run[1].started, 10);  // in the middle of a turn
  EXPECT_NEAR(run[1].ended, 310 + switching, 1e-9);
  EXPECT_NEAR(run[0].ended, 600 + 2 * switching, 1e-9);
}

// The third job shares a node with the first. When the second job leaves the other node, the third
// moves there if the move costs less than waiting.
TEST(TimeSlicing, ASuspendedJobMovesWhereThatSavesMoreThanItCosts) {
  for (const double migration : {5.0, 2000.0}) {
    const Watched w = sliced({2, 4}, {slicing_job(0, 4, 1000, 2000), slicing_job(1, 4, 150, 2000),
                                      slicing_job(2, 4, 1000, migration)});
    const JobRun& moved = w.schedule.jobs[2];
    EXPECT_EQ(moved.migrations, migration < 1000 ? 1 : 0);
    if (moved.migrations == 1) {
      // The third job's first turn begins at 60 s. It waits from 120.7 s on and moves when the
      // second job ends at 151 s.
      EXPECT_EQ(moved.started, 60);
      EXPECT_NEAR(moved.ended, 151 + 5 + 940, 1e-9);
    }
    EXPECT_EQ(w.schedule.jobs[0].migrations, 0);
  }
}

TEST(TimeSlicing, JobsThatComeTogetherGoBeforeTheOneThatLeavesForThem) {
  const auto run =
      sliced(node, {slicing_job(0, 4, 600), slicing_job(100, 4, 600), slicing_job(100, 4, 600)})
          .schedule.jobs;
  EXPECT_EQ(run[1].started, 100);
  EXPECT_NEAR(run[2].started, 160 + switching, 1e-9);
}

std::vector<ClusterJob> random_jobs(int most, int gpus) {
  std::vector<ClusterJob> jobs;
  double now = 0;
  const int count = *rc::gen::inRange(1, most + 1);
  for (int i = 0; i < count; ++i) {
    now += *rc::gen::inRange(0, 3000) / 37.0;
    jobs.push_back(slicing_job(now, *rc::gen::inRange(1, gpus + 1),
                               *rc::gen::inRange(1, 20'000) / 53.0, switching));
  }
  return jobs;
}

// A plain round robin for jobs that fill the only node, written independently of the scheduler.
std::vector<double> round_robin(const std::vector<ClusterJob>& jobs) {
  std::vector<double> ends(jobs.size()), left;
  for (const ClusterJob& job : jobs) left.push_back(job.work / job.gpus);
  std::vector<bool> suspended(jobs.size());
  std::deque<std::size_t> line;
  std::size_t next = 0;
  double now = 0;
  const auto arrive_until = [&](double time) {
    while (next < jobs.size() && jobs[next].submit <= time) line.push_back(next++);
  };
  bool displaces = false;
  while (next < jobs.size() || !line.empty()) {
    if (line.empty()) now = jobs[next].submit;
    arrive_until(now);
    const std::size_t job = line.front();
    line.pop_front();
    const double begin = now + (displaces || suspended[job] ? switching : 0);
    double until = std::min(begin + slice, begin + left[job]);
    arrive_until(until);
    // With an empty queue the job continues until another job arrives.
    if (line.empty() && left[job] > slice) {
      const double comes = next < jobs.size() ? jobs[next].submit : begin + left[job];
      until = std::min(begin + left[job], comes);
    }
    left[job] -= until - begin;
    now = until;
    displaces = left[job] > same_moment;
    suspended[job] = displaces;
    arrive_until(now);
    if (displaces) line.push_back(job);
    if (!displaces) ends[job] = now;
  }
  return ends;
}

RC_GTEST_PROP(TimeSlicing, JobsThatFillTheNodeAreServedRoundRobin, ()) {
  auto jobs = random_jobs(20, 1);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    jobs[i].work *= 4;
    jobs[i].gpus = 4;
    jobs[i].submit += static_cast<double>(i) * 1e-3;  // no two events at one moment
  }
  const auto runs = sliced(node, jobs).schedule.jobs;
  const auto ends = round_robin(jobs);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    RC_ASSERT(std::abs(runs[i].ended - ends[i]) <= 1e-9 * ends[i]);
  }
}

// A job waits at most one turn of each job that was there before it.
RC_GTEST_PROP(TimeSlicing, NobodyWaitsLongerThanARound, ()) {
  const auto jobs = random_jobs(40, 16);
  const auto runs = sliced({4, 4}, jobs).schedule.jobs;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const double submit = jobs[i].submit;
    int before = 0;
    for (std::size_t j = 0; j < jobs.size(); ++j) {
      if (j != i && jobs[j].submit <= submit && runs[j].ended > submit) ++before;
    }
    RC_ASSERT(runs[i].started - submit <= before * (slice + switching) + 1e-6);
  }
}

// If no job waits for another, time slicing and migration equal gang scheduling.
RC_GTEST_PROP(TimeSlicing, WithoutConflictItIsGangScheduling, ()) {
  const auto jobs = random_jobs(8, 2);
  const Watched gang = watched({4, 4}, {linear_kind(16)}, jobs, Policy::fifo);
  for (const Policy policy : {Policy::time_slicing, Policy::migration}) {
    const Watched w = watched({4, 4}, {linear_kind(16)}, jobs, policy);
    RC_ASSERT(w.spans.size() == gang.spans.size());
    for (std::size_t i = 0; i < w.spans.size(); ++i) {
      RC_ASSERT(w.spans[i].job == gang.spans[i].job && w.spans[i].begin == gang.spans[i].begin);
      RC_ASSERT(w.spans[i].end == gang.spans[i].end && w.spans[i].work == gang.spans[i].work);
    }
  }
}

}  // namespace
}  // namespace lockstep::time_slicing_test
