// Do lanes, streams and communicators have the times that a GPU would have, and is every second
// accounted for?
#include <gtest/gtest.h>

#include <cmath>

#include "engine/world.hpp"
#include "on_both.hpp"

namespace lockstep::ranks_test {
namespace {

constexpr double near = 1e-9;

QueuedWork device(double seconds) {
  return {0, seconds, seconds};
}

TransferSpec lasting(double seconds, double latency = 0) {
  TransferSpec spec;
  spec.latency_seconds = latency;
  spec.bytes = 1e6 * seconds;
  spec.lone_bytes_per_second = 1e6;
  spec.channels = 24;
  spec.hbm_bytes_per_second = 100e9;
  return spec;
}

std::vector<double> numbers(const StepRecord& step) {
  return {step.seconds,
          step.split.data_loading,
          step.split.forward,
          step.split.backward,
          step.split.optimizer,
          step.split.copies,
          step.split.exposed_communication,
          step.split.host_bound,
          step.split.waiting,
          step.interference};
}
enum { seconds, data, forward, backward, optimizer, copies, exposed, host, waiting, interference };

double twice(Phase, const Occupancy&) {
  return 2;
}

// The first step of `program`, as numbers that fit through a pipe.
template <class Issue>
std::vector<double> first_step(const RankGroupSpec& spec, Issue&& issue) {
  return on_both([&](Engine engine) {
    World world({.engine = engine});
    RankGroup& ranks = world.add_ranks(spec);
    Communicator& communicator = ranks.add_communicator("all");
    const auto driver = [&]() -> Program {
      if constexpr (std::is_void_v<decltype(issue(ranks, communicator))>) {
        issue(ranks, communicator);
      } else {
        co_await issue(ranks, communicator);
      }
      ranks.end_step();
      co_await ranks.await_step(0);
    };
    world.spawn("driver", driver());
    world.run();
    return numbers(ranks.steps().at(0));
  });
}

void expect_complete(const std::vector<double>& step) {
  double sum = 0;
  for (int part = data; part <= waiting; ++part) sum += step.at(static_cast<std::size_t>(part));
  EXPECT_NEAR(sum, step.at(seconds), 1e-12 * step.at(seconds));
}

TEST(ComputeStream, OverlapsCommunicationUntilItWaits) {
  const auto step = first_step({}, [](RankGroup& ranks, Communicator& all) {
    ranks.compute(Phase::forward, device(1));
    const Event done = ranks.start(all, lasting(2), ranks.record());
    ranks.compute(Phase::backward, device(0.5));
    ranks.wait(done);
    ranks.compute(Phase::optimizer, device(0.25));
  });
  EXPECT_NEAR(step[seconds], 3.25, near);
  EXPECT_NEAR(step[exposed], 1.5, near);
  expect_complete(step);
}

TEST(ComputeStream, IsHostBoundWhenTheHostIssuesSlowly) {
  const auto step = first_step({}, [](RankGroup& ranks, Communicator&) {
    ranks.compute(Phase::forward, {.host = 1, .busy = 0.2, .span = 1.1});
    ranks.compute(Phase::backward, {.host = 1, .busy = 0.2, .span = 1.1});
  });
  EXPECT_NEAR(step[seconds], 2.1, near);
  EXPECT_NEAR(step[host], 1.7, near);
  expect_complete(step);
}

TEST(ComputeStream, OfAFastRankWaitsForAHostThatASlowOneDoesNotNotice) {
  const auto step = first_step({.ranks_per_lane = {1, 1}}, [](RankGroup& ranks, Communicator&) {
    ranks.set_factors({0.5, 1});
    ranks.compute(Phase::forward, device(10));
    ranks.compute(Phase::forward, device(10));  // until 10 s and 20 s
    ranks.host(14);
    ranks.compute(Phase::backward, device(1));
  });
  EXPECT_NEAR(step[seconds], (14.5 + 21) / 2, near);  // the mean rank
  EXPECT_NEAR(step[host], (14 - 10) / 2.0, near);
  expect_complete(step);
}

TEST(ComputeStream, BooksALateIssueOfACollectiveAsHostBound) {
  const auto step = first_step({}, [](RankGroup& ranks, Communicator& all) {
    ranks.compute(Phase::forward, device(1));
    const Event forward_done = ranks.record();
    ranks.host(3);
    ranks.wait(ranks.start(all, lasting(2), forward_done));
  });
  EXPECT_NEAR(step[seconds], 5, near);
  EXPECT_NEAR(step[host], 2, near);
  EXPECT_NEAR(step[exposed], 2, near);
  expect_complete(step);
}

TEST(Lanes, StartACollectiveWhenTheLastOneArrives) {
  const auto step = first_step({.ranks_per_lane = {3, 1}}, [](RankGroup& ranks, Communicator& all) {
    ranks.set_factors({1, 2});
    ranks.compute(Phase::forward, device(1));
    ranks.wait(ranks.start(all, lasting(1), ranks.record()));
  });
  EXPECT_NEAR(step[seconds], 3, near);
  EXPECT_NEAR(step[forward], 1.25, near);  // three ranks of 1 s, one of 2 s
  EXPECT_NEAR(step[waiting], 0.75, near);
  EXPECT_NEAR(step[exposed], 1, near);
  expect_complete(step);
}

TEST(Communicator, RunsOneCollectiveAtATime) {
  const auto step = first_step({}, [](RankGroup& ranks, Communicator& all) {
    const Event first = ranks.start(all, lasting(2));
    const Event second = ranks.start(all, lasting(1));
    ranks.wait(second);
    ranks.wait(first);
  });
  EXPECT_NEAR(step[seconds], 3, near);
  EXPECT_NEAR(step[exposed], 3, near);
}

// The fast rank ends backward when half of the slow rank's collectives have run. It waits for each
// collective in turn, when many more are issued already, or once for the last one; both waits must
// be divided alike.
TEST(Communicator, DividesAWaitThatManyCollectivesFollowed) {
  constexpr int collectives = 300;
  constexpr double length = 0.25;
  for (const bool each_in_turn : {true, false}) {
    RankGroupSpec two;
    two.ranks_per_lane = {1, 1};
    const auto step = first_step(two, [&](RankGroup& ranks, Communicator& all) {
      ranks.set_factors({1, 2});
      std::vector<Event> done;
      for (int i = 0; i < collectives; ++i) {
        ranks.compute(Phase::backward, device(1));
        done.push_back(ranks.start(all, lasting(length), ranks.record()));
      }
      for (std::size_t i = each_in_turn ? 0 : done.size() - 1; i < done.size(); ++i) {
        ranks.wait(done[i]);
      }
    });
    // The slow rank sets the start of collective i at 2 (i + 1) s. The fast rank waits from 300 s
    // to the end and meets the collectives from number 149 on, which runs from 300 to 300.25 s.
    EXPECT_NEAR(step[seconds], 2 * collectives + length, near);
    EXPECT_NEAR(step[backward], 1.5 * collectives, near);
    EXPECT_NEAR(step[exposed], (151 * length + length) / 2, near);
    EXPECT_NEAR(step[waiting], (collectives + length - 151 * length) / 2, near);
    EXPECT_NEAR(step[host], 0, near);
    expect_complete(step);
  }
}

TEST(Communicator, LetsGroupsStartOnTheirOwn) {
  const auto step = on_both([](Engine engine) {
    World world({.engine = engine});
    RankGroup& ranks = world.add_ranks({.ranks_per_lane = {1, 1}});
    Communicator& nodes = ranks.add_communicator("nodes", {{0}, {1}});
    const auto driver = [&]() -> Program {
      ranks.set_factors({1, 2});
      ranks.compute(Phase::forward, device(1));
      ranks.wait(ranks.start(nodes, lasting(1), ranks.record()));
      ranks.end_step();
      co_await ranks.await_step(0);
    };
    world.spawn("driver", driver());
    world.run();
    return numbers(ranks.steps().at(0));
  });
  EXPECT_NEAR(step[seconds], 2.5, near);  // the mean of 2 s and 3 s
  EXPECT_NEAR(step[waiting], 0, near);
}

// The driver learns of the slow queue's end only at 5 s. A collective on an independent queue must
// still start at the time of its event.
TEST(Communicator, StartsOnTimeWhateverTheProgramWaitedFor) {
  const auto step = on_both([](Engine engine) {
    World world({.engine = engine});
    RankGroup& ranks = world.add_ranks({});
    Communicator& slow = ranks.add_communicator("slow");
    Communicator& quick = ranks.add_communicator("quick");
    const auto driver = [&]() -> Program {
      const Event early = ranks.record();  // at 0
      ranks.wait(ranks.start(slow, lasting(5)));
      ranks.end_step();
      co_await ranks.await_step(0);  // the program is at 5 s of simulated time
      ranks.wait(ranks.start(quick, lasting(7), early));
      ranks.end_step();
      co_await ranks.await_step(1);
    };
    world.spawn("driver", driver());
    world.run();
    return numbers(ranks.steps().at(1));
  });
  EXPECT_NEAR(step[seconds], 2, near);
}

// When the collective beside a segment ends, the segment continues at full speed, and the next
// collective starts on time.
TEST(Communicator, StartsOnTimeAfterASegmentThatGotFaster) {
  const auto step = first_step({.slowdown = twice}, [](RankGroup& ranks, Communicator& all) {
    ranks.start(all, lasting(1));
    ranks.compute(Phase::backward, device(2));  // the first second has half speed
    ranks.start(all, lasting(1), ranks.record());
    ranks.compute(Phase::optimizer, device(2));
  });
  EXPECT_NEAR(step[backward], 2.5, near);
  EXPECT_NEAR(step[optimizer], 2.5, near);
}

TEST(SideStream, CarriesTheDataLoader) {
  const auto step = first_step({}, [](RankGroup& ranks, Communicator&) {
    const StreamId loader = ranks.add_stream("loader", WaitCause::data_loading);
    const Event batch = ranks.enqueue(loader, 2, {}, false);
    const Event next = ranks.enqueue(loader, 2, batch, false);
    ranks.wait(batch);
    ranks.compute(Phase::forward, device(1));
    ranks.wait(next);
  });
  EXPECT_NEAR(step[seconds], 4, near);
  EXPECT_NEAR(step[data], 3, near);
  expect_complete(step);
}

TEST(HostWait, StopsTheHostUntilTheDeviceIsThere) {
  const auto step = first_step({}, [](RankGroup& ranks, Communicator&) -> Program {
    ranks.compute(Phase::forward, device(4));
    co_await ranks.host_wait(ranks.record());
    ranks.compute(Phase::optimizer, {.host = 1, .busy = 0.1, .span = 1.1});
  });
  EXPECT_NEAR(step[seconds], 5.1, near);
  EXPECT_NEAR(step[host], 1, near);
}

// Each lane's host continues when its own device has finished.
TEST(HostWait, IsThatOfEachLane) {
  const auto step =
      first_step({.ranks_per_lane = {1, 1, 1}}, [](RankGroup& ranks, Communicator&) -> Program {
        ranks.set_factors({1, 2, 3});
        ranks.compute(Phase::forward, device(4));
        co_await ranks.host_wait(ranks.record());
        ranks.set_factors({1, 1, 1});
        ranks.compute(Phase::optimizer, {.host = 1, .busy = 0.1, .span = 1.1});
      });
  EXPECT_NEAR(step[seconds], 8 + 1.1, near);  // mean of the lanes
  EXPECT_NEAR(step[forward], 8, near);
  EXPECT_NEAR(step[host], 1, near);
}

// Compute runs at half speed while a collective runs. The segment of 4 s starts at 1 s beside 2.5 s
// of collectives, in which it does 1.25 s of work, and takes 1.25 s longer.
TEST(Interference, SlowsComputeExactlyWhileACollectiveRuns) {
  RankGroupSpec spec;
  spec.slowdown = [](Phase, const Occupancy& taken) { return taken.channels > 0 ? 2.0 : 1.0; };
  const auto step = first_step(spec, [](RankGroup& ranks, Communicator& all) {
    ranks.compute(Phase::forward, device(1));
    const Event first = ranks.start(all, lasting(1), ranks.record());  // 1 s to 2 s
    const Event second = ranks.start(all, lasting(1, 0.5));            // 2 s to 3.5 s
    ranks.compute(Phase::backward, device(4));
    ranks.wait(first);
    ranks.wait(second);
    ranks.compute(Phase::optimizer, device(1));
  });
  EXPECT_NEAR(step[backward], 4 + 1.25, near);
  EXPECT_NEAR(step[interference], 1.25, near);
  EXPECT_NEAR(step[seconds], 1 + 5.25 + 1, near);
  EXPECT_NEAR(step[exposed], 0, near);
  expect_complete(step);
}

TEST(Interference, ReachesEveryLaneAtItsOwnTime) {
  RankGroupSpec spec{.ranks_per_lane = {1, 1}};
  spec.slowdown = [](Phase phase, const Occupancy& taken) {
    return phase == Phase::backward && taken.channels == 24 && taken.hbm_bytes_per_second == 100e9
               ? 2.0
               : 1.0;
  };
  const auto step = first_step(spec, [](RankGroup& ranks, Communicator& all) {
    ranks.set_factors({1, 2});
    ranks.compute(Phase::forward, device(1));                         // until 1 s, 2 s
    const Event done = ranks.start(all, lasting(1), ranks.record());  // 2 s to 3 s
    ranks.compute(Phase::backward, device(1));                        // 1..2 s; 2..4.5 s
    ranks.wait(done);
  });
  EXPECT_NEAR(step[backward], (1 + 2.5) / 2, near);
  EXPECT_NEAR(step[seconds], (3 + 4.5) / 2, near);
  expect_complete(step);
}

TEST(Interference, DoesNotDelayAHostBoundSegment) {
  RankGroupSpec spec;
  spec.slowdown = [](Phase, const Occupancy& taken) { return taken.channels > 0 ? 1.5 : 1.0; };
  const auto step = first_step(spec, [](RankGroup& ranks, Communicator& all) {
    const Event done = ranks.start(all, lasting(4));
    ranks.compute(Phase::forward, {.host = 3, .busy = 1, .span = 3.1});
    ranks.wait(done);
  });
  EXPECT_NEAR(step[forward], 1.5, near);
  EXPECT_NEAR(step[host], 1.6, near);
  EXPECT_NEAR(step[exposed], 0.9, near);
  expect_complete(step);
}

// A transfer of 10 s whose threads need `cores` of a core; the rank has one core.
TransferSpec on_core(double cores) {
  TransferSpec spec = lasting(10);
  spec.cores = cores;
  spec.speed_beside_compute = std::min(1.0, 0.5 / cores);
  return spec;
}

RankGroupSpec one_core() {
  RankGroupSpec spec;
  spec.slowdown = [](Phase, const Occupancy& taken) {
    return 1 / (1 - std::min(0.5, taken.cores));
  };
  return spec;
}

// The transfer needs half a core and gets it. In its 10 s compute does 5 of its 8 s; the other 3 s
// follow at full speed.
TEST(SharedCore, ATransferOfHalfACoreSlowsComputeOnly) {
  const auto step = first_step(one_core(), [](RankGroup& ranks, Communicator& all) {
    ranks.compute(Phase::forward, device(1));
    const Event done = ranks.start(all, on_core(0.5), ranks.record());
    ranks.compute(Phase::backward, device(8));
    ranks.wait(done);
  });
  EXPECT_NEAR(step[backward], 13, near);
  EXPECT_NEAR(step[exposed], 0, near);
  EXPECT_NEAR(step[seconds], 14, near);
  expect_complete(step);
}

// The transfer needs a whole core, so transfer and compute have half speed until compute ends after
// 16 s; the transfer then has 2 s left.
TEST(SharedCore, ATransferOfAWholeCoreAndComputeSlowEachOther) {
  const auto step = first_step(one_core(), [](RankGroup& ranks, Communicator& all) {
    ranks.compute(Phase::forward, device(1));
    const Event done = ranks.start(all, on_core(1), ranks.record());
    ranks.compute(Phase::backward, device(3));
    ranks.compute(Phase::backward, device(5));
    ranks.wait(done);
  });
  EXPECT_NEAR(step[backward], 16, near);
  EXPECT_NEAR(step[exposed], 2, near);
  EXPECT_NEAR(step[seconds], 19, near);
  expect_complete(step);
}

// Compute runs only from 4 to 6 s, at half speed: the transfer loses 1 s.
TEST(SharedCore, ATransferLosesOnlyWhileComputeRuns) {
  const auto step = first_step(one_core(), [](RankGroup& ranks, Communicator& all) {
    const Event done = ranks.start(all, on_core(1));
    ranks.wait(ranks.enqueue(ranks.add_stream("idle"), 4, {}, false));
    ranks.compute(Phase::backward, device(1));
    ranks.wait(done);
  });
  EXPECT_NEAR(step[backward], 2, near);
  EXPECT_NEAR(step[seconds], 11, near);
  expect_complete(step);
}

TEST(OneThread, HasNoHostThatRunsAhead) {
  const auto program = [](RankGroup& ranks, Communicator& all) -> Program {
    ranks.host(5);
    ranks.compute(Phase::forward, {.host = 3, .busy = 4, .span = 5});
    const Event done = ranks.start(all, lasting(2));  // issued when the computing thread arrives
    co_await ranks.host_wait(done, 1);
    ranks.compute(Phase::backward, device(1));
  };
  const auto step = first_step({.one_thread = true}, program);
  EXPECT_NEAR(step[seconds], 4 + 2 + 1, near);
  EXPECT_NEAR(step[exposed], 2, near);
  EXPECT_NEAR(step[host], 0, near);
  expect_complete(step);
  // With a separate host the collective runs from 8 to 10 s beside compute, which ends at 10 s.
  EXPECT_NEAR(first_step({}, program)[seconds], 5 + 5 + 1 + 1, near);
}

// Two groups of ranks in one World share a link; each has its own communicator.
TEST(RankGroups, ShareTheLinksOfTheWorld) {
  const auto steps = on_both([](Engine engine) {
    World world({.engine = engine});
    const LinkId nic = world.add_link("nic", "NIC", 1e6);
    TransferSpec spec = lasting(2);
    spec.uses = {{nic, spec.bytes}};
    std::vector<RankGroup*> groups{&world.add_ranks({.name = "a"}),
                                   &world.add_ranks({.name = "b"})};
    std::vector<Communicator*> all;
    for (RankGroup* group : groups) all.push_back(&group->add_communicator("all"));
    const auto driver = [&](std::size_t i, double compute_seconds) -> Program {
      RankGroup& ranks = *groups[i];
      ranks.compute(Phase::forward, device(compute_seconds));
      ranks.wait(ranks.start(*all[i], spec, ranks.record()));
      ranks.end_step();
      co_await ranks.await_step(0);
    };
    world.spawn("a", driver(0, 1));
    world.spawn("b", driver(1, 2));
    world.run();
    return std::vector<double>{groups[0]->steps().at(0).seconds, groups[1]->steps().at(0).seconds,
                               world.traffic().at(0).bytes};
  });
  EXPECT_NEAR(steps[0], 4, near);  // alone from 1 to 2 s, then half of the link
  EXPECT_NEAR(steps[1], 5, near);
  EXPECT_NEAR(steps[2], 4e6, near);
}

// A collective and a push share a link whose capacity halves at 4 s.
TEST(RankGroups, ShareLinksWithPushes) {
  const auto seen = on_both([](Engine engine) {
    World world({.engine = engine});
    const LinkId nic = world.add_link("nic", "NIC", 1e6);
    RankGroup& ranks = world.add_ranks({});
    Communicator& all = ranks.add_communicator("all");
    TransferSpec spec = lasting(4);
    spec.uses = {{nic, spec.bytes}};
    TransferSpec small;
    small.bytes = 1e6;
    small.uses = {{nic, small.bytes}};
    double pushed = 0;
    const auto driver = [&]() -> Program {
      ranks.wait(ranks.start(all, spec));
      ranks.end_step();
      co_await ranks.await_step(0);
    };
    const auto push = [&]() -> Program {
      co_await world.transfer(small);
      pushed = world.now();
    };
    const auto degrade = [&]() -> Program {
      world.set_capacity(nic, 0.5e6);
      co_return;
    };
    world.spawn("driver", driver());
    world.spawn("push", push(), 1);
    world.spawn("degrade", degrade(), 4);
    world.run();
    return std::vector<double>{pushed, ranks.steps().at(0).seconds};
  });
  EXPECT_NEAR(seen[0], 3, near);
  EXPECT_NEAR(seen[1], 6, near);  // 3 MB by 4 s, the fourth takes two seconds
}

// A background program takes half of the link every other second. It must end with the last program
// that the World waits for.
TEST(World, EndsWhatGoesOnBesideIt) {
  const std::vector<double> seen = on_both([](Engine engine) {
    World world({.engine = engine});
    const LinkId nic = world.add_link("nic", "NIC", 1e6);
    TransferSpec push;
    push.bytes = 3.5e6;
    push.uses = {{nic, 3.5e6, 0}};
    double pushed = 0, changes = 0;
    const auto send = [&]() -> Program {
      co_await world.transfer(push);
      pushed = world.now();
    };
    const auto neighbour = [&]() -> Program {
      double time = 0;
      for (bool sends = true; !co_await world.over().rung(time += 1); sends = !sends) {
        world.set_capacity(nic, sends ? 0.5e6 : 1e6);
        ++changes;
      }
    };
    world.spawn_beside("neighbour", neighbour());
    world.spawn("send", send());
    world.run();
    return std::vector<double>{pushed, changes, world.now()};
  });
  EXPECT_NEAR(seen[0], 4.5, near);  // 0.5 MB in the seconds with the neighbor, 1 MB in the others
  EXPECT_EQ(seen[1], 4);
  EXPECT_NEAR(seen[2], seen[0], near);
}

}  // namespace
}  // namespace lockstep::ranks_test
