// Do staged checkpoints, copies in memory, replicas, hot spares and evictions agree with closed
// forms?
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "fixture.hpp"

namespace lockstep::recovery_test {
namespace {

ScheduledFailure slows(double seconds, int node) {
  return {.seconds = seconds, .slows = node};
}

LongRun staged(double steps, double every, double copy, double write) {
  LongRun plan = gang(4, steps, 0);
  plan.steps_between_checkpoints = every;
  plan.copy_seconds = copy;
  plan.write_seconds = write;
  return plan;
}

// 1000 steps have nine checkpoints, each of which stalls training for the copy to the host. A write
// of 30 s ends before the next checkpoint.
TEST(StagedCheckpoint, StallsForTheCopyToTheHost) {
  const LongRunResult r = play(staged(1000, 100, 2.5, 30), 1, 0);
  EXPECT_NEAR(r.seconds, 1000 + 9 * 2.5, 1e-9);
  EXPECT_NEAR(r.checkpoints, 9 * 2.5, 1e-9);
  EXPECT_NEAR(r.training, 1000, 1e-9);
}

// Training runs at 80 % of its speed during the 30 s of each write. After the last checkpoint only
// 20 s of training remain.
TEST(StagedCheckpoint, SlowsTrainingWhileItIsWritten) {
  LongRun plan = staged(920, 100, 2, 30);
  plan.speed_while_writing = 0.8;
  const double seconds = 920 + 9 * 2 + 8 * 0.2 * 30 + (20 / 0.8 - 20);
  EXPECT_NEAR(play(plan, 1, 0).seconds, seconds, 1e-9);
  EXPECT_NEAR(plan.failure_free_seconds(), seconds, 1e-9);
}

// A write takes 150 s and a period 100 s, so each checkpoint but the first waits 50 s for the write
// before it.
TEST(StagedCheckpoint, WaitsForTheOneBefore) {
  const LongRun plan = staged(1000, 100, 2, 150);
  const LongRunResult r = play(plan, 1, 0);
  EXPECT_NEAR(r.seconds, 1000 + 9 * 2 + 8 * 50, 1e-9);
  EXPECT_NEAR(plan.failure_free_seconds(), r.seconds, 1e-9);
}

// The checkpoint is copied at 100 s and stored at 132 s. A failure between loses all work since the
// start.
TEST(StagedCheckpoint, IsThereOnceItIsStored) {
  LongRun plan = staged(150, 100, 2, 30);
  plan.faults.at = {{120, {}, {}}};
  EXPECT_NEAR(play(plan, 1, 0).lost, 118, 1e-9);
  plan.faults.at = {{140, {}, {}}};
  EXPECT_NEAR(play(plan, 1, 0).lost, 38, 1e-9);
}

// With a copy that takes no time, a staged checkpoint of the same steps is never complete later
// than a blocking one.
RC_GTEST_PROP(StagedCheckpoint, IsNeverSlowerThanABlockingOneAtEqualDraws, (int run)) {
  LongRun plan = gang(4, 2000, 1 / 1500.0);
  plan.steps_between_checkpoints = *rc::gen::inRange(5, 200);
  plan.write_seconds = *rc::gen::inRange(0, 40);
  plan.faults.restart_seconds = *rc::gen::inRange(0, 30);
  const LongRunResult blocking = play(plan, 7, run & 0xffff);
  plan.copy_seconds = 0;
  const LongRunResult beside = play(plan, 7, run & 0xffff);
  RC_ASSERT(beside.seconds <= blocking.seconds * (1 + 1e-9));
}

// Eight nodes in four replicas of two nodes. A failed node is repaired after 80 s; its replica
// returns 30 s of restart and 7 s of catching up later.
LongRun pairs() {
  LongRun plan = elastic(8, 400, 0);
  plan.replica_nodes = 2;
  plan.catch_up_seconds = 7;
  plan.faults.detection_seconds = 10;
  plan.faults.reconfigure_seconds = 5;
  plan.faults.restart_seconds = 30;
  plan.faults.repair_seconds = 80;
  return plan;
}

TEST(Replicas, GoOnWithoutTheOneThatFailed) {
  LongRun plan = pairs();
  plan.faults.at = {{100, 2, {}}};
  const LongRunResult one = play(plan, 1, 0);
  EXPECT_NEAR(one.seconds, 400 + 15 + (117 - 15) / 4.0, 1e-9);
  EXPECT_NEAR(one.down, 15, 1e-9);
  EXPECT_EQ(one.lost, 0);
  EXPECT_NEAR(one.node_seconds, 8 * one.seconds - 2 * 117, 1e-9);
  plan.faults.at = {{100, 2, {}}, {100, 3, {}}};  // the other node of the same replica
  EXPECT_NEAR(play(plan, 1, 0).seconds, one.seconds, 1e-9);
  plan.faults.at = {{100, 2, {}}, {100, 4, {}}};
  EXPECT_NEAR(play(plan, 1, 0).seconds, 400 + 15 + (117 - 15) / 2.0, 1e-9);
}

TEST(Replicas, AreBackAsSoonAsASpareIsThere) {
  LongRun plan = pairs();
  plan.faults.spare_nodes = 1;
  plan.faults.at = {{100, 2, {}}};
  EXPECT_NEAR(play(plan, 1, 0).seconds, 400 + 15 + (10 + 30 + 7 - 15) / 4.0, 1e-9);
  plan.faults.hot_restart_seconds = 3;
  EXPECT_NEAR(play(plan, 1, 0).seconds, 400 + 15 + (10 + 3 + 7 - 15) / 4.0, 1e-9);
}

// A failed process restarts on its own node. A departure with notice needs no detection.
TEST(Replicas, ComeBackFromWhateverStopsThem) {
  LongRun plan = pairs();
  plan.faults.at = {{.seconds = 100, .worker = 3}};
  EXPECT_NEAR(play(plan, 1, 0).seconds, 400 + 15 + (10 + 37 - 15) / 4.0, 1e-9);
  plan.faults.at = {{.seconds = 100, .leaves = 3}, {.seconds = 150, .joins = 3}};
  EXPECT_NEAR(play(plan, 1, 0).seconds, 400 + 5 + (50 + 37 - 5) / 4.0, 1e-9);
}

TEST(Replicas, GoBackToACheckpointWhereAllAreLost) {
  LongRun plan = pairs();
  plan.replica_nodes = 4;
  plan.steps_between_checkpoints = 90;
  plan.read_seconds = 3;
  plan.faults.at = {{100, 0, {}}, {105, 4, {}}};
  const LongRunResult r = play(plan, 1, 0);
  EXPECT_NEAR(r.lost, 10, 1e-9);
  // Each replica lacks a node until 180 s, but four of the six other nodes form a whole replica
  // earlier.
  EXPECT_LT(r.waiting, 70);
  EXPECT_TRUE(r.finished);
  plan.faults.at = {{100, {}, {}}};  // a failure of the job's software
  EXPECT_NEAR(play(plan, 1, 0).seconds, 400 + 10 + 10 + 30 + 3, 1e-9);
}

// With D seconds lost per failure a replica is present e^(-rate D) of the time. Each failure of a
// present replica stalls all for S seconds, so training moves e^(-N rate present S) of the time.
TEST(Replicas, GoodputIsItsClosedForm) {
  const double rate = 1 / 50000.0, stall = 15, away = 10 + 200 + 40;
  LongRun plan = elastic(32, 4e5, rate);
  plan.replica_nodes = 1;
  plan.catch_up_seconds = 40;
  plan.faults.detection_seconds = 10;
  plan.faults.reconfigure_seconds = 5;
  plan.faults.restart_seconds = 200;
  plan.faults.spare_nodes = 100;
  plan.faults.repair_seconds = 0;
  plan.faults.runs = 20;
  const double there = std::exp(-rate * away);
  const double moving = std::exp(-32 * rate * there * stall);
  EXPECT_NEAR(play_all(plan, 1).goodput / (there * moving), 1, 1e-3);
}

// A gang whose state is copied to other hosts' memory in every step; the copy is complete at once.
LongRun with_copies(int nodes, int copies) {
  LongRun plan = gang(nodes, 400, 0);
  plan.memory = {copies, 1, 0, 3, 2};
  plan.read_seconds = 50;
  plan.faults.restart_seconds = 30;
  return plan;
}

TEST(MemoryCopies, ARestartReadsThemFromTheOthers) {
  LongRun plan = with_copies(4, 2);
  plan.faults.at = {{100, 1, {}}};
  EXPECT_NEAR(play(plan, 1, 0).seconds, 400 + 30 + 3 + 2, 1e-9);
  EXPECT_EQ(play(plan, 1, 0).memory_restarts, 1);
  plan.faults.at = {{100, {}, {}}};  // a software failure: every host still has its own copy
  EXPECT_NEAR(play(plan, 1, 0).seconds, 400 + 30 + 3, 1e-9);
  plan.memory.steps_between = 40;  // the copy of 80 s is complete at 90 s, that of 120 s at 130 s
  plan.memory.seconds = 10;
  EXPECT_NEAR(play(plan, 1, 0).lost, 20, 1e-9);
  plan.faults.at = {{85, {}, {}}};
  EXPECT_NEAR(play(plan, 1, 0).lost, 45, 1e-9);
}

// If two of N nodes fail together with two copies of each part, the state survives in memory with
// probability 1 - 1 / (N - 1). This is Gemini's law for k = m = 2 (SOSP 2023).
TEST(MemoryCopies, OfTwoFailuresMostLeaveACopy) {
  const int nodes = 16;
  int kept = 0, all = 0;
  for (int one = 0; one < nodes; ++one) {
    for (int other = one + 1; other < nodes; ++other, ++all) {
      LongRun plan = with_copies(nodes, 2);
      plan.faults.at = {{100, one, {}}, {100, other, {}}};
      const LongRunResult r = play(plan, 1, 0);
      kept += r.memory_restarts;
      EXPECT_NEAR(r.lost, r.memory_restarts > 0 ? 0 : 100, 1e-9);
    }
  }
  EXPECT_DOUBLE_EQ(static_cast<double>(kept) / all, 1 - 1 / (nodes - 1.0));
}

TEST(MemoryCopies, MoreOfThemNeverFinishLaterInTheMean) {
  double before = std::numeric_limits<double>::infinity();
  for (const int copies : {1, 2, 3, 4}) {
    LongRun plan = with_copies(12, copies);
    plan.steps = 4000;
    plan.speeds.node = 1 / 6000.0;
    plan.steps_between_checkpoints = 500;
    plan.write_seconds = 10;
    plan.faults.runs = 100;
    const double finish = play_all(plan, 1).finish_seconds;
    EXPECT_LE(finish, before) << copies;
    before = finish;
  }
}

TEST(HotSpares, ShortenARestartThatNeedsNobodyElse) {
  LongRun plan = gang(4, 400, 0);
  plan.faults.detection_seconds = 10;
  plan.faults.restart_seconds = 30;
  plan.faults.hot_restart_seconds = 4;
  plan.faults.repair_seconds = 500;
  plan.faults.spare_nodes = 1;
  plan.faults.at = {{100, 1, {}}};
  EXPECT_NEAR(play(plan, 1, 0).seconds, 500 + 14, 1e-9);
  plan.faults.at = {{100, {}, {}}};  // the processes of all nodes end
  EXPECT_NEAR(play(plan, 1, 0).seconds, 500 + 40, 1e-9);
  plan.faults.spare_nodes = 0;  // the repaired node itself must restart, without a hot spare
  plan.faults.at = {{100, 1, {}}};
  EXPECT_NEAR(play(plan, 1, 0).seconds, 500 + 500 + 30, 1e-9);
}

LongRun with_slow_node(LongRun plan) {
  plan.speed_with_slow_node = 0.5;
  plan.write_seconds = 5;
  plan.read_seconds = 3;
  plan.faults.restart_seconds = 30;
  plan.faults.repair_seconds = 70;
  plan.faults.degraded.emplace();
  plan.faults.at = {slows(100, 1)};
  return plan;
}

TEST(SlowNodes, SlowAllThatKeepStep) {
  LongRun plan = with_slow_node(gang(4, 400, 0));
  EXPECT_NEAR(play(plan, 1, 0).seconds, 100 + 300 / 0.5, 1e-9);
  plan.faults.at.push_back(slows(200, 2));  // the second slow node is no slower than the first
  EXPECT_NEAR(play(plan, 1, 0).seconds, 100 + 300 / 0.5, 1e-9);
  plan = with_slow_node(elastic(4, 400, 0));
  plan.independent_workers = true;
  plan.speed_with_slow_node = 1 - 0.5 / 4;
  plan.faults.at.push_back(slows(200, 2));
  EXPECT_NEAR(play(plan, 1, 0).seconds, 200 + (300 - 87.5) / 0.75, 1e-9);
}

// The node slows training to half for 20 s; then a checkpoint is written, and the job restarts with
// the spare.
TEST(SlowNodes, AreEvictedWhereASpareIsThere) {
  LongRun plan = with_slow_node(gang(4, 400, 0));
  plan.faults.degraded->evict_after_seconds = 20;
  plan.faults.spare_nodes = 1;
  const LongRunResult r = play(plan, 1, 0);
  EXPECT_EQ(r.evictions, 1);
  EXPECT_EQ(r.failures, 0);
  EXPECT_EQ(r.lost, 0);
  EXPECT_NEAR(r.seconds, 400 + 10 + 5 + 33, 1e-9);
  // Without a spare the slow node stays to the end.
  plan.faults.spare_nodes = 0;
  EXPECT_NEAR(play(plan, 1, 0).seconds, 100 + 300 / 0.5, 1e-9);
}

TEST(SlowNodes, LeaveAloneWithTheirReplica) {
  LongRun plan = with_slow_node(pairs());
  plan.catch_up_seconds = 7;
  plan.faults.degraded->evict_after_seconds = 20;
  const LongRunResult r = play(plan, 1, 0);
  EXPECT_EQ(r.evictions, 1);
  EXPECT_NEAR(r.seconds, 400 + 10 + 5 + (70 + 37 - 5) / 4.0, 1e-9);
}

TEST(Repetitions, EndWhenTheMeanIsKnownWell) {
  LongRun plan = gang(4, 2000, 1 / 4000.0);
  plan.steps_between_checkpoints = 200;
  plan.faults.until = Until{0.02, 5000};
  const RunWithFailures wide = play_all(plan, 1);
  EXPECT_LE(wide.finish_error, 0.02);
  EXPECT_GE(wide.runs, 20);
  plan.faults.until->interval = 0.005;
  const RunWithFailures narrow = play_all(plan, 1);
  EXPECT_LE(narrow.finish_error, 0.005);
  // An interval that is four times narrower needs about sixteen times as many runs.
  EXPECT_GT(narrow.runs, 4 * wide.runs);
  plan.faults.until->runs = 50;
  EXPECT_EQ(play_all(plan, 1).runs, 50);
  EXPECT_EQ(play_all(plan, 1).finish_seconds, play_all(plan, 1).finish_seconds);
}

}  // namespace
}  // namespace lockstep::recovery_test
