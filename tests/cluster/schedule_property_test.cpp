// Does any scheduler overbook GPUs, lose or invent work, or delay the first job in line?
#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "jobs.hpp"

namespace lockstep::schedule_property_test {
namespace {

constexpr ClusterSize size{4, 4};

// Random jobs at odd times, so that no two events coincide.
std::vector<ClusterJob> random_jobs() {
  std::vector<ClusterJob> jobs;
  double now = 0;
  const int count = *rc::gen::inRange(1, 40);
  for (int i = 0; i < count; ++i) {
    now += *rc::gen::inRange(1, 3000) / 37.0 + i * 1e-4;
    const int gpus = *rc::gen::inRange(1, 17);
    ClusterJob job = job_of(now, gpus, *rc::gen::inRange(1, 20'000) / 53.0 + i * 1e-5);
    if (*rc::gen::inRange(0, 2) == 1) job.limit = job.work / gpus * *rc::gen::inRange(1, 5);
    job.switching = *rc::gen::element(0, 0, 3);
    job.migration = *rc::gen::element(0, 5, 40);
    jobs.push_back(job);
  }
  return jobs;
}

JobKind random_kind() {
  JobKind kind = linear_kind(20);
  // Each further GPU adds less speed.
  for (auto& [gpus, rate] : kind.rates) rate = std::pow(gpus, 0.8);
  kind.elastic = *rc::gen::inRange(0, 2) == 1;
  kind.least = *rc::gen::inRange(1, 5);
  kind.most = *rc::gen::element(0, 16, 20);
  kind.pause = *rc::gen::element(0, 0, 7);
  kind.restart = *rc::gen::element(0, 11);
  kind.checkpoint_period = *rc::gen::element(0, 60);
  return kind;
}

RC_GTEST_PROP(Schedules, EveryJobIsDoneOnceOnGpusThatExist, ()) {
  auto jobs = random_jobs();
  const std::vector<JobKind> kinds{random_kind(), random_kind()};
  for (ClusterJob& job : jobs) {
    job.kind = static_cast<std::size_t>(*rc::gen::inRange(0, 2));
    job.priority = *rc::gen::inRange(0, 3);
  }
  for (const Policy policy : {Policy::fifo, Policy::backfill, Policy::preemption, Policy::elastic,
                              Policy::time_slicing, Policy::migration}) {
    const Watched w = watched(size, kinds, jobs, policy);
    std::vector<double> done(jobs.size(), 0), lost(jobs.size(), 0), held(jobs.size(), 0);
    std::vector<double> free_from(jobs.size(), 0);
    std::map<double, int> changes;
    std::map<int, std::map<double, int>> on_node;
    for (const Span& span : w.spans) {
      RC_ASSERT(span.begin >= std::max(jobs[span.job].submit, free_from[span.job]));
      RC_ASSERT(span.end > span.begin);
      free_from[span.job] = span.end;
      const double rate = kinds[jobs[span.job].kind].rates.at(span.gpus);
      RC_ASSERT(span.work >= 0 && span.lost >= 0);
      // No span does more work than the job's speed allows.
      RC_ASSERT(span.work + span.lost <= (span.end - span.begin + same_moment) * rate * (1 + 1e-9));
      done[span.job] += span.work;
      lost[span.job] += span.lost / rate * span.gpus;
      held[span.job] += (span.end - span.begin) * span.gpus;
      changes[span.begin] += span.gpus;
      changes[span.end] -= span.gpus;
      RC_ASSERT(gpus_in(span.placed) == span.gpus);
      for (const Share& share : span.placed) {
        on_node[share.node][span.begin] += share.gpus;
        on_node[share.node][span.end] -= share.gpus;
      }
    }
    // An elastic job that grows may be placed anew, so its nodes are not known here.
    if (policy == Policy::elastic) on_node.clear();
    for (const auto& [node, moments] : on_node) {
      int held_there = 0;
      for (const auto& [time, change] : moments) {
        held_there += change;
        RC_ASSERT(held_there >= 0 && held_there <= size.gpus_per_node);
      }
    }
    int busy = 0;
    for (const auto& [time, change] : changes) {
      busy += change;
      RC_ASSERT(busy >= 0 && busy <= size.nodes * size.gpus_per_node);
    }
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      const JobRun& run = w.schedule.jobs[i];
      const JobKind& kind = kinds[jobs[i].kind];
      RC_ASSERT(std::abs(done[i] - jobs[i].work) <= 1e-9 * jobs[i].work);
      RC_ASSERT(std::abs(held[i] - run.gpu_seconds) <= 1e-6);
      RC_ASSERT(std::abs(lost[i] - run.lost_gpu_seconds) <= 1e-6);
      // GPUs are held for work that is kept, for work that is lost, and for standing still; for
      // nothing else.
      double useful = 0;
      for (const Span& span : w.spans) {
        if (span.job == i) useful += span.work / kind.rates.at(span.gpus) * span.gpus;
      }
      RC_ASSERT(std::abs(useful + lost[i] + run.idle_gpu_seconds - held[i]) <= 1e-6 * held[i]);
      RC_ASSERT(lost[i] <= run.evictions * kind.checkpoint_period * jobs[i].gpus + 1e-9);
      RC_ASSERT(run.ended == free_from[i]);
      const bool evicts = policy == Policy::preemption || policy == Policy::time_slicing;
      if (!evicts) RC_ASSERT(run.evictions == 0);
      if (policy == Policy::time_slicing) RC_ASSERT(lost[i] == 0);
      if (policy != Policy::elastic || !kind.elastic) RC_ASSERT(run.resizes == 0);
    }
  }
}

// Under backfill the first job in line starts no later than if the queue behind it were empty. The
// comparison leaves out all jobs that were not running when the job became the first.
RC_GTEST_PROP(Backfill, NeverDelaysTheFirstInLine, ()) {
  const JobKind kind = linear_kind(16);
  const Policy policy = Policy::backfill;
  const auto jobs = random_jobs();
  const Schedule all = watched(size, {kind}, jobs, policy).schedule;
  for (std::size_t head = 1; head < jobs.size(); ++head) {
    double first = jobs[head].submit;
    for (std::size_t i = 0; i < head; ++i) first = std::max(first, all.jobs[i].started);
    if (all.jobs[head].started <= first) continue;
    std::vector<ClusterJob> fewer(jobs.begin(), jobs.begin() + static_cast<std::ptrdiff_t>(head));
    for (std::size_t i = head; i < jobs.size(); ++i) {
      if (i == head || all.jobs[i].started < first) fewer.push_back(jobs[i]);
    }
    // The scheduler's reservation assumes the lengths that it knows of running jobs, so the
    // comparison uses these lengths.
    std::size_t kept = 0;
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      if (i > head && all.jobs[i].started >= first) continue;
      ClusterJob& job = fewer[kept++];
      const bool runs = i != head && all.jobs[i].ended > first;
      if (runs) job.work = std::max(job.work, job.limit * kind.rates.at(job.gpus));
    }
    const Schedule alone = watched(size, {kind}, fewer, policy).schedule;
    RC_ASSERT(all.jobs[head].started <= alone.jobs[head].started * (1 + 1e-12) + 1e-9);
  }
}

// Elastic jobs may delay the first job in line, but not beyond its reservation.
RC_GTEST_PROP(Elastic, ReservationsAreKept, ()) {
  auto jobs = random_jobs();
  std::vector<JobKind> kinds{random_kind(), random_kind()};
  for (JobKind& kind : kinds) kind.pause = 0;
  for (ClusterJob& job : jobs) job.kind = static_cast<std::size_t>(*rc::gen::inRange(0, 2));
  for (const Policy policy : {Policy::backfill, Policy::elastic}) {
    const Watched w = watched(size, kinds, jobs, policy);
    for (const auto& [job, time] : w.promised) {
      RC_ASSERT(w.schedule.jobs[job].started <= time + 1e-6);
    }
  }
}

RC_GTEST_PROP(Schedules, AreTheSameEachTime, ()) {
  const auto jobs = random_jobs();
  const JobKind kind = random_kind();
  for (const Policy policy :
       {Policy::preemption, Policy::elastic, Policy::time_slicing, Policy::migration}) {
    const Watched a = watched(size, {kind}, jobs, policy), b = watched(size, {kind}, jobs, policy);
    RC_ASSERT(a.spans.size() == b.spans.size());
    for (std::size_t i = 0; i < a.spans.size(); ++i) {
      RC_ASSERT(a.spans[i].begin == b.spans[i].begin && a.spans[i].gpus == b.spans[i].gpus);
    }
  }
}

// First come, first served: jobs start in the order of submission.
RC_GTEST_PROP(Fifo, NobodyOvertakes, ()) {
  const auto jobs = random_jobs();
  const Schedule plan = watched(size, {linear_kind(16)}, jobs, Policy::fifo).schedule;
  for (std::size_t i = 1; i < jobs.size(); ++i) {
    RC_ASSERT(plan.jobs[i].started >= plan.jobs[i - 1].started);
  }
}

TEST(Backfill, FillsTheHoleBeforeALargeJob) {
  const std::vector<ClusterJob> jobs{job_of(0, 12, 100), job_of(1, 16, 50), job_of(2, 4, 90),
                                     job_of(3, 4, 200)};
  const auto fifo = watched(size, {linear_kind(16)}, jobs, Policy::fifo).schedule.jobs;
  const auto easy = watched(size, {linear_kind(16)}, jobs, Policy::backfill).schedule.jobs;
  EXPECT_EQ(fifo[2].started, 150);
  EXPECT_EQ(easy[2].started, 2);  // ends before the reservation at 100 s
  EXPECT_EQ(easy[1].started, 100);
  EXPECT_EQ(easy[3].started, 150);  // would end after it
}

// Lengths that end exactly at a reservation must fit, for any speed by which work is divided.
TEST(Backfill, RoundLimitsMeet) {
  constexpr ClusterSize one{1, 4};
  for (const double speed : {1.0, 4899.37 / 7, 0.1, 1345.678 / 3, 1e7 / 9}) {
    JobKind kind = linear_kind(4);
    for (auto& [gpus, rate] : kind.rates) rate = speed * std::pow(gpus, 0.93);
    const auto job = [&](double submit, int gpus, double seconds) {
      ClusterJob made = job_of(submit, gpus, 0);
      made.work = seconds * kind.rates.at(gpus);
      return made;
    };
    for (double over = 600; over <= 90'000; over += 420) {
      for (const double submit : {20.0, 60.0, 100.1, 120.0, 300.0}) {
        for (const Policy policy : {Policy::backfill, Policy::elastic}) {
          // The third job ends when the first does, and the second takes the GPUs of both.
          const auto both =
              watched(one, {kind},
                      {job(0, 2, over), job(10, 4, 500), job(submit, 2, over - submit)}, policy)
                  .schedule.jobs;
          ASSERT_EQ(both[2].started, submit) << over;
          ASSERT_NEAR(both[1].started, over, same_moment);
          ASSERT_EQ(both[1].started, both[0].ended);
          ASSERT_EQ(both[1].started, both[2].ended);
          // The first job in line leaves one GPU free at its reservation.
          const auto beside = watched(one, {kind},
                                      {job(0, 2, over), job(5, 1, over - 5), job(10, 3, 500),
                                       job(submit, 1, 2 * over)},
                                      policy)
                                  .schedule.jobs;
          ASSERT_EQ(beside[3].started, submit) << over;
          ASSERT_NEAR(beside[2].started, over, same_moment);
        }
      }
    }
  }
}

// Each start changes the reserved GPUs: a job that starts may free the place that blocked another.
TEST(Backfill, WhereOneWouldLieIsAskedAgainAfterAStart) {
  const std::vector<ClusterJob> jobs{job_of(0, 3, 100), job_of(1, 2, 1000), job_of(2, 4, 10),
                                     job_of(3, 1, 500), job_of(3, 1, 50),   job_of(3, 1, 500)};
  const auto run = watched({2, 4}, {linear_kind(4)}, jobs, Policy::backfill).schedule.jobs;
  EXPECT_EQ(run[2].started, 100);
  EXPECT_GT(run[3].started, 3);  // would lie on the first node, which the third job waits for
  EXPECT_EQ(run[4].started, 3);  // ends before the reservation
  EXPECT_EQ(run[5].started, 3);  // lies on the other node
}

// A job starts at its submission at the earliest, even if it is submitted within the tolerance of a
// moment.
TEST(Backfill, AMomentIsThatOfItsArrivals) {
  const double late = 100 + same_moment / 2;
  const auto run =
      watched(size, {linear_kind(16)}, {job_of(0, 16, 100), job_of(late, 16, 10)}, Policy::fifo)
          .schedule.jobs;
  EXPECT_EQ(run[0].ended, late);
  EXPECT_EQ(run[1].started, late);
}

TEST(Preemption, ANewJobEvictsOneThatHasHadItsService) {
  JobKind kind = linear_kind(16);
  kind.restart = 5;
  kind.checkpoint_period = 30;
  const auto run =
      watched(size, {kind}, {job_of(0, 16, 200), job_of(100, 16, 10)}, Policy::preemption, 16 * 50)
          .schedule.jobs;
  EXPECT_EQ(run[1].started, 100);
  EXPECT_EQ(run[1].ended, 110);
  EXPECT_EQ(run[0].evictions, 1);
  EXPECT_NEAR(run[0].lost_gpu_seconds, 10 * 16, 1e-9);  // the work since the checkpoint at 90 s
  EXPECT_NEAR(run[0].ended, 110 + 5 + 110, 1e-9);
}

TEST(Preemption, WhoIsEvictedWaitsWhereItBelongs) {
  const std::vector<ClusterJob> jobs{job_of(0, 8, 1000), job_of(1, 8, 1000), job_of(200, 8, 50),
                                     job_of(201, 8, 90)};
  const auto run =
      watched({1, 16}, {linear_kind(16)}, jobs, Policy::preemption, 8 * 100).schedule.jobs;
  // The second job is evicted before the first, and the first job continues before the second.
  EXPECT_EQ(run[0].evictions, 1);
  EXPECT_EQ(run[1].evictions, 1);
  EXPECT_NEAR(run[0].ended, 250 + 1000 - 201, 1e-6);
  EXPECT_NEAR(run[1].ended, 291 + 1000 - 199, 1e-6);
}

TEST(Elastic, SizesAreDoublingsTheMostAndWhatIsAskedFor) {
  JobKind kind;
  EXPECT_EQ(sizes_of(kind, 6), (std::vector<int>{6}));
  kind.elastic = true;
  EXPECT_EQ(sizes_of(kind, 6), (std::vector<int>{1, 2, 4, 6}));
  kind.least = 3;
  kind.most = 20;
  EXPECT_EQ(sizes_of(kind, 5), (std::vector<int>{3, 5, 6, 12, 20}));
}

TEST(Elastic, AJobStartsSmallAndGrowsIntoWhatIsLeft) {
  JobKind gang = linear_kind(16), elastic = linear_kind(16);
  elastic.elastic = true;
  std::vector<ClusterJob> jobs{job_of(0, 12, 100), job_of(10, 8, 100)};
  jobs[1].kind = 1;
  const auto run = watched(size, {gang, elastic}, jobs, Policy::elastic).schedule.jobs;
  EXPECT_EQ(run[1].started, 10);
  EXPECT_EQ(run[1].resizes, 1);
  // In 90 s on 4 GPUs the job does 360 of 800 GPU-seconds; it does the rest on 8 GPUs.
  EXPECT_NEAR(run[1].ended, 100 + 440 / 8.0, 1e-9);
}

}  // namespace
}  // namespace lockstep::schedule_property_test
