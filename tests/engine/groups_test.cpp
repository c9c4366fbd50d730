// Do groups of ranks run independently, and do their collectives slow down the compute of their own
// ranks only?
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "engine/world.hpp"
#include "on_both.hpp"

namespace lockstep::groups_test {
namespace {

// One instruction of a random program.
struct Piece {
  enum Kind { compute, collective, wait, host, host_wait } kind = compute;
  double seconds = 0;
  bool after_compute = true;  // for a collective; otherwise it waits only for its host
};

std::vector<Piece> random_program() {
  const int length = *rc::gen::inRange(1, 30);
  std::vector<Piece> program;
  for (int i = 0; i < length; ++i) {
    program.push_back(
        {*rc::gen::element(Piece::compute, Piece::compute, Piece::collective, Piece::collective,
                           Piece::wait, Piece::host, Piece::host_wait),
         0.125 * *rc::gen::inRange(1, 40), *rc::gen::arbitrary<bool>()});
  }
  return program;
}

struct Shape {
  std::vector<double> factors;           // speed factors by lane
  std::vector<std::vector<int>> groups;  // groups of the communicator
  bool meet = false;                     // the collectives use a link that others may use
};

double halved(Phase, const Occupancy& taken) {
  return taken.channels > 0 ? 2 : 1;
}

// For each lane, the seconds of three steps: total, communicating, waiting.
std::vector<std::vector<double>> lanes_of(const std::vector<Piece>& program, const Shape& shape) {
  World world({.network = NetworkKind::flow, .engine = Engine::loop});
  const LinkId nic = world.add_link("nic", "NIC", 1e6);
  world.meet(nic, shape.meet);
  RankGroup& ranks = world.add_ranks(
      {.ranks_per_lane = std::vector<double>(shape.factors.size(), 1), .slowdown = halved});
  Communicator& communicator = ranks.add_communicator("groups", shape.groups);
  const auto driver = [&]() -> Program {
    ranks.set_factors(shape.factors);
    Event last, before;  // the latest collective; before the latest compute
    for (int step = 0; step < 3; ++step) {
      for (const Piece& piece : program) {
        TransferSpec spec;
        switch (piece.kind) {
          case Piece::compute:
            before = ranks.record();
            ranks.compute(Phase::forward, QueuedWork{0, piece.seconds, piece.seconds});
            break;
          case Piece::collective:
            spec.bytes = 1e6 * piece.seconds;
            spec.lone_bytes_per_second = 1e6;
            spec.channels = 1;
            spec.uses = {{nic, spec.bytes}};
            last = ranks.start(communicator, spec, piece.after_compute ? ranks.record() : Event{});
            break;
          case Piece::wait:
            ranks.wait(last);
            break;
          case Piece::host:
            ranks.host(piece.seconds);
            break;
          case Piece::host_wait:
            co_await ranks.host_wait(before);
            break;
        }
      }
      ranks.wait(last);
      ranks.end_step();
      co_await ranks.await_step(step);
    }
  };
  world.spawn("driver", driver());
  world.run();
  std::vector<std::vector<double>> result(shape.factors.size());
  for (const StepRecord& step : ranks.steps()) {
    for (std::size_t lane = 0; lane < result.size(); ++lane) {
      result[lane].push_back(step.lanes.seconds[lane]);
      result[lane].push_back(step.lanes.communicating[lane]);
      result[lane].push_back(step.lanes.waiting[lane]);
    }
  }
  return result;
}

void expect_same(const std::vector<double>& a, const std::vector<double>& b) {
  RC_ASSERT(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    RC_ASSERT(std::abs(a[i] - b[i]) <= 1e-9 * (1 + std::abs(b[i])));
  }
}

double random_factor() {
  return 1 + 0.05 * *rc::gen::inRange(0, 30);
}

// Groups without a common collective behave like separate jobs, however unequal the groups are.
RC_GTEST_PROP(Groups, LiveAsIfTheyWereAlone, ()) {
  const std::vector<Piece> program = random_program();
  const std::vector<double> factors{random_factor(), random_factor(), random_factor(),
                                    random_factor(), random_factor()};
  const auto together = lanes_of(program, {factors, {{0, 3}, {1, 2}, {4}}});
  const auto first = lanes_of(program, {{factors[0], factors[3]}, {}});
  const auto second = lanes_of(program, {{factors[1], factors[2]}, {}});
  const auto third = lanes_of(program, {{factors[4]}, {}});
  expect_same(together[0], first[0]);
  expect_same(together[3], first[1]);
  expect_same(together[1], second[0]);
  expect_same(together[2], second[1]);
  expect_same(together[4], third[0]);
}

// If transfers never meet on a link, computing them ahead of time gives the same results as
// simulating them over time.
RC_GTEST_PROP(Groups, AreWorkedOutAheadAsTheyWouldBeCarried, ()) {
  const std::vector<Piece> program = random_program();
  const std::vector<double> factors{random_factor(), random_factor(), random_factor(), 1, 1};
  const auto ahead = lanes_of(program, {factors, {}});
  const auto carried = lanes_of(program, {factors, {}, true});
  for (std::size_t lane = 0; lane < factors.size(); ++lane) expect_same(ahead[lane], carried[lane]);
}

// The collective of lane 0 runs from 1 to 3 s and halves the speed of lane 0's compute, which has 1
// of its 2 s left at 3 s. Lane 1 takes twice as long; its collective runs from 2 to 4 s.
TEST(Groups, SlowDownTheirOwnLanes) {
  const std::vector<Piece> program{
      {Piece::compute, 1}, {Piece::collective, 2}, {Piece::compute, 2}};
  const auto lanes = lanes_of(program, {{1, 2}, {{0}, {1}}});
  EXPECT_NEAR(lanes[0][0], 1 + 2 + 1, 1e-12);
  EXPECT_NEAR(lanes[1][0], 2 + 2 + 3, 1e-12);
}

// The host waits for the first compute and then starts a collective, while the second compute is
// already issued. The collective runs from 1 to 3 s at half speed of the second compute, which has
// 3 of its 4 s left at 3 s.
TEST(Groups, SlowDownWorkThatWasIssuedBeforeThem) {
  const std::vector<Piece> program{
      {Piece::compute, 1}, {Piece::compute, 4}, {Piece::host_wait}, {Piece::collective, 2, false}};
  for (const bool meet : {false, true}) {
    const auto lanes = lanes_of(program, {{1}, {}, meet});
    EXPECT_NEAR(lanes[0][0], 1 + 2 + 3, 1e-12) << meet;
  }
}

// A lane stands still twice. Before the first collective its own host is late; before the second
// one the other lane is late. Each gap must be booked under its own cause.
TEST(Groups, AskEveryGapForItsCause) {
  World world({.engine = Engine::loop});
  RankGroup& ranks = world.add_ranks({.ranks_per_lane = {1, 1}});
  Communicator& all = ranks.add_communicator("all");
  TransferSpec second;
  second.bytes = 1e6;
  second.lone_bytes_per_second = 1e6;
  const auto driver = [&]() -> Program {
    ranks.set_factors({1, 3});
    ranks.host(2);
    ranks.start(all, second);  // 2 to 3 s, issued late
    ranks.compute(Phase::forward, QueuedWork{});
    ranks.wait(ranks.start(all, second,
                           ranks.enqueue(ranks.add_stream("other"), 2, {}, true, {},
                                         {0, 2})));  // 6 to 7 s: lane 1 is late
    ranks.end_step();
    co_await ranks.await_step(0);
  };
  world.spawn("driver", driver());
  world.run();
  const StepRecord& step = ranks.steps().at(0);
  EXPECT_NEAR(step.seconds, 7, 1e-12);
  EXPECT_NEAR(step.lanes.communicating[0], 2, 1e-12);
  EXPECT_NEAR(step.lanes.waiting[0], 2, 1e-12);
  EXPECT_NEAR(step.lanes.waiting[1], 0, 1e-12);
}

// A stretch of one group that repeats nine times more counts this group's traffic nine times more,
// and no other group's.
TEST(Groups, RepeatTheirOwnTrafficOnly) {
  World world({.engine = Engine::loop});
  const LinkId nic = world.add_link("nic", "NIC", 1e6),
               other = world.add_link("other", "PCIe", 1e6);
  RankGroup& a = world.add_ranks({.name = "a"});
  RankGroup& b = world.add_ranks({.name = "b"});
  Communicator& all = a.add_communicator("all");
  Communicator& alone = b.add_communicator("all");
  const auto on = [](LinkId link) {
    TransferSpec spec;
    spec.bytes = 1e6;
    spec.lone_bytes_per_second = 1e6;
    spec.uses = {{link, spec.bytes}};
    return spec;
  };
  const auto repeats = [&]() -> Program {
    const int from = a.mark();
    a.wait(a.start(all, on(nic)));
    const int to = a.mark();
    co_await a.await_mark(to);
    a.repeat(from, to, 9);
    a.end_step();
    co_await a.await_step(0);
  };
  const auto once = [&]() -> Program {
    b.wait(b.start(alone, on(other)));
    b.end_step();
    co_await b.await_step(0);
  };
  world.spawn("a", repeats());
  world.spawn("b", once());
  world.run();
  EXPECT_NEAR(world.traffic().at(0).bytes, 10e6, 1e-3);
  EXPECT_NEAR(world.traffic().at(1).bytes, 1e6, 1e-3);
}

}  // namespace
}  // namespace lockstep::groups_test
