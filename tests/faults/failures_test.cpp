// Do failures come at their rate, and at scheduled times?
#include "faults/failures.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace lockstep::failures_test {
namespace {

TEST(Failures, ComeAtTheirRate) {
  Failures failures({0, 0.01, 0.02}, 3, {}, 1, 1, 0);
  int count = 0;
  while (failures.next_seconds() < 1e6) {
    failures.take();
    ++count;
  }
  EXPECT_NEAR(count, 0.05 * 1e6, 4 * std::sqrt(0.05 * 1e6));
}

TEST(Failures, OfNodesConcernOnlyThoseInUse) {
  Failures failures({1, 0, 0}, 0, {}, 1, 1, 0);
  EXPECT_TRUE(std::isinf(failures.next_seconds()));
  failures.enters(3, 100);
  failures.enters(4, 100);
  failures.leaves(4);
  EXPECT_GT(failures.next_seconds(), 100);
  EXPECT_EQ(failures.take().number, 3);
  EXPECT_TRUE(std::isinf(failures.next_seconds()));
}

TEST(Failures, OfOneNodeDoNotDependOnTheOthers) {
  Failures alone({1, 0, 0}, 0, {}, 1, 1, 0), beside({1, 0, 0}, 0, {}, 1, 1, 0);
  alone.enters(2, 0);
  beside.enters(1, 0);
  beside.enters(2, 0);
  FailureEvent event = beside.take();
  if (event.number == 1) event = beside.take();
  EXPECT_EQ(alone.take().seconds, event.seconds);
}

TEST(Failures, DifferBetweenRunsAndSeeds) {
  const auto first = [](std::uint64_t seed, int run) {
    return Failures({0, 0, 1}, 0, {}, 1, seed, run).next_seconds();
  };
  EXPECT_NE(first(1, 0), first(1, 1));
  EXPECT_NE(first(1, 0), first(2, 0));
  EXPECT_EQ(first(1, 1), first(1, 1));
}

TEST(Failures, AtGivenTimesComeInOrder) {
  Failures failures({}, 0, {{50, {}, {}}, {20, 7, {}}, {30, {}, 1}}, 1, 1, 0);
  FailureEvent event = failures.take();
  EXPECT_EQ(event.seconds, 20);
  EXPECT_EQ(event.what, Failing::node);
  EXPECT_EQ(event.number, 7);
  event = failures.take();
  EXPECT_EQ(event.what, Failing::server);
  EXPECT_EQ(event.number, 1);
  EXPECT_EQ(failures.take().what, Failing::job);
  EXPECT_TRUE(std::isinf(failures.next_seconds()));
}

// A worker's failure leaves its node in use, so the node's next failure is drawn. A link's failure
// takes its node out of use.
TEST(Failures, OfWorkersGoOnUntilTheirNodeLeaves) {
  Failures failures({.workers = 1}, 0, {}, 8, 1, 0);
  failures.enters(5, 10);
  double last = 10;
  for (int i = 0; i < 3; ++i) {
    const FailureEvent event = failures.take();
    EXPECT_EQ(event.what, Failing::worker);
    EXPECT_EQ(event.number, 5);
    EXPECT_GT(event.seconds, last);
    last = event.seconds;
  }
  failures.leaves(5);
  EXPECT_TRUE(std::isinf(failures.next_seconds()));
  Failures links({.link = 1}, 0, {}, 8, 1, 0);
  links.enters(5, 10);
  EXPECT_EQ(links.take().what, Failing::link);
  EXPECT_TRUE(std::isinf(links.next_seconds()));
}

TEST(Failures, OfAGivenWorkerAreOfItsNode) {
  ScheduledFailure of_worker;
  of_worker.seconds = 20;
  of_worker.worker = 17;
  Failures failures({}, 0, {of_worker}, 8, 1, 0);
  const FailureEvent event = failures.take();
  EXPECT_EQ(event.what, Failing::worker);
  EXPECT_EQ(event.number, 2);
}

}  // namespace
}  // namespace lockstep::failures_test
