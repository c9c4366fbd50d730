// Does a run with failures take the time that can be worked out by hand or by a law?
#include "faults/long_run.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "fixture.hpp"

namespace lockstep::long_run_test {
namespace {

ScheduledFailure worker_fails(double seconds, int worker) {
  return {.seconds = seconds, .worker = worker};
}
ScheduledFailure link_fails(double seconds, int link) {
  return {.seconds = seconds, .link = link};
}
ScheduledFailure leaves(double seconds, int node) {
  return {.seconds = seconds, .leaves = node};
}
ScheduledFailure joins(double seconds, int node) {
  return {.seconds = seconds, .joins = node};
}

TEST(LongRun, WithoutFailuresIsItsStepsAndCheckpoints) {
  LongRun plan = gang(4, 1000, 0);
  plan.steps_between_checkpoints = 100;
  plan.write_seconds = 7;
  const LongRunResult r = play(plan, 1, 0);
  EXPECT_TRUE(r.finished);
  EXPECT_DOUBLE_EQ(r.seconds, 1000 + 9 * 7);
  EXPECT_DOUBLE_EQ(r.seconds, plan.failure_free_seconds());
  EXPECT_EQ(r.interruptions, 0);
}

// With a checkpoint after 100 steps and a failure at 150 s, 50 s of work are lost.
TEST(LongRun, AFailureGoesBackToTheLastCheckpoint) {
  LongRun plan = gang(4, 300, 0);
  plan.steps_between_checkpoints = 100;
  plan.write_seconds = 5;
  plan.read_seconds = 3;
  plan.faults.detection_seconds = 10;
  plan.faults.restart_seconds = 20;
  plan.faults.at = {{155, 2, {}}};
  const LongRunResult r = play(plan, 1, 0);
  EXPECT_DOUBLE_EQ(r.lost, 50);
  EXPECT_DOUBLE_EQ(r.down, 33);
  EXPECT_DOUBLE_EQ(r.training, 300);
  EXPECT_DOUBLE_EQ(r.checkpoints, 10);
  EXPECT_DOUBLE_EQ(r.seconds, 393);
}

TEST(LongRun, AFailureWhileWritingLosesTheCheckpoint) {
  LongRun plan = gang(1, 150, 0);
  plan.steps_between_checkpoints = 100;
  plan.write_seconds = 10;
  plan.faults.at = {{104, {}, {}}};
  const LongRunResult r = play(plan, 1, 0);
  EXPECT_DOUBLE_EQ(r.lost, 100);
  EXPECT_DOUBLE_EQ(r.checkpoints, 14);
  EXPECT_DOUBLE_EQ(r.seconds, 104 + 100 + 10 + 50);
}

TEST(LongRun, AFailureDuringTheRestartStartsItAgain) {
  LongRun plan = gang(2, 100, 0);
  plan.faults.detection_seconds = 10;
  plan.faults.restart_seconds = 20;
  plan.faults.at = {{50, 0, {}}, {75, 1, {}}};
  const LongRunResult r = play(plan, 1, 0);
  EXPECT_EQ(r.interruptions, 2);
  EXPECT_DOUBLE_EQ(r.down, 25 + 30);
  EXPECT_DOUBLE_EQ(r.seconds, 50 + 55 + 100);
}

TEST(LongRun, SpareNodesAreThereBeforeRepairedOnes) {
  LongRun plan = gang(2, 100, 0);
  plan.faults.repair_seconds = 500;
  plan.faults.at = {{10, 0, {}}, {20, 1, {}}};
  plan.faults.spare_nodes = 1;
  const LongRunResult r = play(plan, 1, 0);
  EXPECT_DOUBLE_EQ(r.waiting, 490);  // the first node is back at 510 s, and the second needs it
  EXPECT_DOUBLE_EQ(r.seconds, 610);
  plan.faults.spare_nodes = 2;
  EXPECT_DOUBLE_EQ(play(plan, 1, 0).waiting, 0);
}

// One of four nodes fails at 100 s for 80 s. The repaired node rejoins at the next checkpoint.
TEST(LongRun, ElasticGoesOnWithWhatIsLeft) {
  LongRun plan = elastic(4, 400, 0);
  plan.steps_between_checkpoints = 100;
  plan.faults.repair_seconds = 80;
  plan.faults.restart_seconds = 30;
  plan.faults.at = {{100, 0, {}}};
  const LongRunResult r = play(plan, 1, 0);
  EXPECT_DOUBLE_EQ(r.down, 60);  // a restart with three nodes, and a restart with four
  EXPECT_DOUBLE_EQ(r.lost, 0);   // the checkpoint was just written
  EXPECT_NEAR(r.training, 100 + 100 / 0.75 + 200, 1e-9);
}

// With independent workers the others continue: 3/4 of the speed for 80 s of repair and 20 s of
// restart.
TEST(LongRun, IndependentWorkersLoseOnlyTheSpeedOfOne) {
  LongRun plan = elastic(4, 400, 0);
  plan.independent_workers = true;
  plan.faults.repair_seconds = 80;
  plan.faults.restart_seconds = 20;
  plan.faults.at = {{100, 0, {}}};
  const LongRunResult r = play(plan, 1, 0);
  EXPECT_EQ(r.interruptions, 0);
  EXPECT_EQ(r.failures, 1);
  EXPECT_DOUBLE_EQ(r.lost, 0);
  EXPECT_NEAR(r.seconds, 400 + 0.25 * 100, 1e-9);
  EXPECT_NEAR(r.node_seconds, 4 * r.seconds - 100, 1e-9);
}

// The first spare node is still starting when a checkpoint is written. The second spare must stay
// idle.
TEST(LongRun, IndependentWorkersNeedNoMoreSparesThanNodesAreLost) {
  LongRun plan = elastic(4, 400, 0);
  plan.independent_workers = true;
  plan.steps_between_checkpoints = 10;
  plan.faults.repair_seconds = 1000;
  plan.faults.detection_seconds = 10;
  plan.faults.restart_seconds = 30;
  plan.faults.at = {{100, 0, {}}};
  for (const int spare : {1, 2, 5}) {
    plan.faults.spare_nodes = spare;
    const LongRunResult r = play(plan, 1, 0);
    EXPECT_DOUBLE_EQ(r.down, 0) << spare;
    EXPECT_NEAR(r.seconds, 400 + 0.25 * 40, 1e-9) << spare;
  }
}

TEST(LongRun, IndependentWorkersStopWhereTheStateIsLost) {
  LongRun plan = elastic(4, 400, 0);
  plan.independent_workers = true;
  plan.state_nodes = 1;
  plan.faults.at = {{100, 0, {}}};
  EXPECT_DOUBLE_EQ(play(plan, 1, 0).lost, 100);
  plan.faults.at = {{100, 1, {}}};
  EXPECT_DOUBLE_EQ(play(plan, 1, 0).lost, 0);
  plan.state_nodes = 0;
  plan.servers = 2;
  plan.faults.at = {{100, {}, 1}};
  EXPECT_DOUBLE_EQ(play(plan, 1, 0).lost, 100);
}

// A worker's failure leaves its node usable, so the job restarts without a repair.
TEST(LongRun, AWorkersFailureStopsThoseWhoKeepStep) {
  LongRun plan = gang(2, 100, 0);
  plan.workers_per_node = 8;
  plan.faults.repair_seconds.reset();
  plan.faults.detection_seconds = 10;
  plan.faults.restart_seconds = 20;
  plan.faults.at = {worker_fails(40, 9)};
  const LongRunResult r = play(plan, 1, 0);
  EXPECT_EQ(r.interruptions, 1);
  EXPECT_DOUBLE_EQ(r.seconds, 40 + 30 + 100);
  EXPECT_DOUBLE_EQ(r.node_seconds, 2 * r.seconds);
}

// There are 4 x 8 workers. A lost worker is missing for 10 s of detection and 30 s of restart,
// which costs 1/32 of the speed.
TEST(LongRun, IndependentWorkersMissOneOfThemUntilItIsBack) {
  LongRun plan = elastic(4, 400, 0);
  plan.independent_workers = true;
  plan.workers_per_node = 8;
  plan.faults.detection_seconds = 10;
  plan.faults.restart_seconds = 30;
  plan.faults.at = {worker_fails(100, 9)};
  EXPECT_NEAR(play(plan, 1, 0).seconds, 400 + 40 / 32.0, 1e-9);
  plan.faults.at.push_back(worker_fails(120, 10));
  EXPECT_NEAR(play(plan, 1, 0).seconds, 400 + 80 / 32.0, 1e-9);
  // The node's failure takes both restarting workers with it; they return with the node.
  plan.faults.at.push_back({130, 1, {}});
  plan.faults.repair_seconds = 50;
  const double before = 30 / 32.0 + 10 / 32.0;
  EXPECT_NEAR(play(plan, 1, 0).seconds, 400 + before + (50 + 30) / 4.0, 1e-9);
}

TEST(LongRun, AllWorkersDownIsAStandstill) {
  LongRun plan = elastic(1, 100, 0);
  plan.independent_workers = true;
  plan.workers_per_node = 2;
  plan.faults.restart_seconds = 30;
  plan.faults.at = {worker_fails(10, 0), worker_fails(10, 1), worker_fails(20, 1)};
  const LongRunResult r = play(plan, 1, 0);
  EXPECT_EQ(r.failures, 2);
  EXPECT_DOUBLE_EQ(r.waiting, 30);
  EXPECT_DOUBLE_EQ(r.seconds, 130);
}

// A failed link returns by itself after its outage, independently of the repair time of nodes.
TEST(LongRun, ALinkTakesItsNodeAwayForAWhile) {
  LongRun plan = gang(4, 400, 0);
  plan.faults.repair_seconds = 1e6;
  plan.faults.link_outage_seconds = 80;
  plan.faults.restart_seconds = 20;
  plan.faults.at = {link_fails(100, 2)};
  const LongRunResult stopped = play(plan, 1, 0);
  EXPECT_DOUBLE_EQ(stopped.lost, 100);
  EXPECT_DOUBLE_EQ(stopped.waiting, 80);
  EXPECT_DOUBLE_EQ(stopped.seconds, 100 + 80 + 20 + 400);
  plan = elastic(4, 400, 0);
  plan.independent_workers = true;
  plan.faults.link_outage_seconds = 80;
  plan.faults.restart_seconds = 20;
  plan.faults.at = {link_fails(100, 2)};
  // the workers keep their state and need no restart
  EXPECT_NEAR(play(plan, 1, 0).seconds, 400 + 80 / 4.0, 1e-9);
}

// A departure with notice writes a checkpoint first, so no work is lost; three of four nodes
// continue.
TEST(LongRun, ANodeLeavesAndJoinsWithNotice) {
  LongRun plan = elastic(4, 400, 0);
  plan.write_seconds = 5;
  plan.read_seconds = 3;
  plan.faults.restart_seconds = 20;
  plan.faults.at = {leaves(100, 2), joins(200, 2)};
  const LongRunResult r = play(plan, 1, 0);
  EXPECT_EQ(r.failures, 0);
  EXPECT_EQ(r.interruptions, 0);
  EXPECT_DOUBLE_EQ(r.lost, 0);
  EXPECT_DOUBLE_EQ(r.checkpoints, 10);
  EXPECT_DOUBLE_EQ(r.down, 46);
  const double on_three = 200 - (100 + 5 + 23);
  EXPECT_NEAR(r.training, on_three + 400 - 0.75 * on_three, 1e-9);
  EXPECT_NEAR(r.away_seconds, 200 - 105, 1e-9);
  // A gang waits for its missing node.
  plan.steps_per_second = gang(4, 400, 0).steps_per_second;
  const LongRunResult gang_of_four = play(plan, 1, 0);
  EXPECT_DOUBLE_EQ(gang_of_four.waiting, 200 - 105);
  EXPECT_DOUBLE_EQ(gang_of_four.seconds, 200 + 23 + 300);
  // Independent workers leave and join without stopping the others.
  plan = elastic(4, 400, 0);
  plan.independent_workers = true;
  plan.faults.at = {leaves(100, 2), joins(200, 2)};
  EXPECT_NEAR(play(plan, 1, 0).seconds, 400 + 100 / 4.0, 1e-9);
  // If the leaving node holds the state, a checkpoint is written and the others restart without the
  // node.
  plan.state_nodes = 1;
  plan.write_seconds = 5;
  plan.faults.at = {leaves(100, 0), joins(200, 0)};
  const LongRunResult moved = play(plan, 1, 0);
  EXPECT_DOUBLE_EQ(moved.lost, 0);
  EXPECT_DOUBLE_EQ(moved.checkpoints, 5);
  EXPECT_NEAR(moved.seconds, 405 + 95 / 4.0, 1e-9);
}

TEST(LongRun, WhoJoinsFirstIsNotThereAtTheBeginning) {
  LongRun plan = elastic(4, 400, 0);
  plan.independent_workers = true;
  plan.faults.at = {joins(200, 3)};
  const LongRunResult r = play(plan, 1, 0);
  EXPECT_NEAR(r.seconds, 400 + 200 / 4.0, 1e-9);
  EXPECT_NEAR(r.away_seconds, 200, 1e-9);
  LongRun waiting = gang(4, 400, 0);
  waiting.faults.at = {joins(200, 3)};
  EXPECT_DOUBLE_EQ(play(waiting, 1, 0).waiting, 200);
  EXPECT_DOUBLE_EQ(play(waiting, 1, 0).seconds, 600);
}

// A node that leaves during its repair does not return when the repair ends.
TEST(LongRun, WhoHasLeftIsNotRepaired) {
  LongRun plan = elastic(2, 100, 0);
  plan.independent_workers = true;
  plan.faults.repair_seconds = 20;
  plan.faults.at = {{10, 1, {}}, leaves(20, 1)};
  EXPECT_NEAR(play(plan, 1, 0).seconds, 10 + 90 * 2, 1e-9);
  plan.faults.at.push_back(joins(50, 1));
  EXPECT_NEAR(play(plan, 1, 0).seconds, 100 + 20, 1e-9);
}

TEST(LongRun, WhoLeavesWhileItFailsDoesNotComeBack) {
  LongRun plan = elastic(2, 100, 0);
  plan.write_seconds = 5;
  plan.faults.repair_seconds = 10;
  plan.faults.at = {leaves(10, 1), {12, 1, {}}};
  const LongRunResult r = play(plan, 1, 0);
  EXPECT_DOUBLE_EQ(r.seconds, 12 + 100 * 2);
  EXPECT_DOUBLE_EQ(r.lost, 10);
}

// An idle spare takes the place of a node that leaves or is not there yet, in gangs and with
// independent workers.
TEST(LongRun, SparesTakeThePlaceOfThoseWhoLeave) {
  for (const bool independent : {false, true}) {
    LongRun plan = independent ? elastic(2, 100, 0) : gang(2, 100, 0);
    plan.independent_workers = independent;
    plan.faults.spare_nodes = 1;
    plan.faults.at = {leaves(10, 1)};
    EXPECT_DOUBLE_EQ(play(plan, 1, 0).seconds, 100) << independent;
    plan.faults.at = {joins(50, 1)};
    EXPECT_DOUBLE_EQ(play(plan, 1, 0).seconds, 100) << independent;
  }
}

// A node that failed and is never repaired may be replaced by a scheduled join.
TEST(LongRun, WhoFailedForGoodMayJoin) {
  LongRun plan = gang(2, 100, 0);
  plan.faults.repair_seconds.reset();
  plan.faults.at = {{10, 1, {}}, joins(30, 1)};
  EXPECT_DOUBLE_EQ(play(plan, 1, 0).seconds, 130);
}

TEST(LongRun, ThoseWhoLeaveTogetherAreHandedOverTogether) {
  for (const double write : {0.0, 5.0}) {
    LongRun plan = elastic(4, 400, 0);
    plan.write_seconds = write;
    plan.faults.restart_seconds = 20;
    plan.faults.at = {leaves(100, 2), leaves(100, 3)};
    const LongRunResult r = play(plan, 1, 0);
    EXPECT_DOUBLE_EQ(r.down, 20) << write;
    EXPECT_DOUBLE_EQ(r.checkpoints, write);
    EXPECT_NEAR(r.seconds, 100 + write + 20 + 600, 1e-9);
  }
}

TEST(LongRun, WithoutSparesAndRepairItEndsUnfinished) {
  LongRun plan = gang(2, 100, 0);
  plan.faults.repair_seconds.reset();
  plan.faults.at = {{10, 0, {}}};
  const LongRunResult r = play(plan, 1, 0);
  EXPECT_FALSE(r.finished);
  EXPECT_DOUBLE_EQ(r.steps, 0);
}

TEST(LongRun, FailuresFasterThanTheRestartAreGivenUp) {
  LongRun plan = gang(1, 100, 1);
  plan.faults.restart_seconds = 60;
  const LongRunResult r = play(plan, 1, 0);
  EXPECT_FALSE(r.finished);
  EXPECT_LE(r.seconds, 2 * most_times * 100);
}

// With failures also during checkpoints and restarts, the mean time of each period is M e^(R/M)
// (e^((period + write)/M) - 1), with M the mean time between failures and R the restart (Daly 2006,
// eq. 20).
TEST(LongRun, MeanTimeIsDalysLaw) {
  const double between = 1000, restart = 120, write = 30, period = 200;
  LongRun plan = gang(5, 200 * period, 1 / between / 5);
  plan.write_seconds = write;
  plan.steps_between_checkpoints = period;
  plan.faults.restart_seconds = restart;
  double sum = 0;
  const int runs = 400;
  for (int run = 0; run < runs; ++run) sum += play(plan, 1, run).seconds;
  const double law =
      between * std::exp(restart / between) * std::expm1((period + write) / between) * 200;
  EXPECT_NEAR(sum / runs / law, 1, 0.01);
}

// The mean time between interruptions is one node's mean time between failures over the number of
// nodes.
TEST(LongRun, TimeBetweenInterruptionsIsThatOfOneNodeOverTheirNumber) {
  LongRun plan = gang(100, 1e6, 1e-5);
  plan.steps_between_checkpoints = 100;
  const LongRunResult r = play(plan, 1, 0);
  EXPECT_NEAR(r.seconds / r.interruptions, 1000, 4 * 1000 / std::sqrt(r.interruptions));
}

}  // namespace
}  // namespace lockstep::long_run_test
