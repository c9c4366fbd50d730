// Do transfers take the right time, on both executors? Checked are lone transfers against closed
// forms, and rings that compete against a simulation of every message.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>

#include "engine/world.hpp"
#include "on_both.hpp"

namespace lockstep::network_test {
namespace {

constexpr double near = 1e-9;  // relative

double relative(double a, double b) {
  return std::abs(a - b) / std::abs(b);
}

// A ring of `ranks` edges of `rate` bytes/s each: `steps` steps of bytes/ranks and `hop` seconds
// each.
TransferSpec ring(const std::vector<LinkId>& edges, double bytes, int steps, double hop,
                  double rate) {
  const auto ranks = static_cast<double>(edges.size());
  TransferSpec spec;
  spec.latency_seconds = steps * hop;
  spec.bytes = bytes;
  spec.lone_bytes_per_second = rate * ranks / steps;
  for (const LinkId edge : edges) spec.uses.push_back({edge, bytes / ranks * steps});
  return spec;
}

std::vector<LinkId> edges_of(World& world, int ranks, double rate) {
  std::vector<LinkId> edges;
  for (int i = 0; i < ranks; ++i) {
    edges.push_back(world.add_link("edge" + std::to_string(i), "NIC", rate));
  }
  return edges;
}

struct LoneCase {
  const char* name;
  NetworkKind network;
  int ranks;
  double bytes;
  int steps_per_rank;  // 2: all-reduce, 1: all-gather or reduce-scatter
};

class LoneRing : public testing::TestWithParam<LoneCase> {};

TEST_P(LoneRing, TakesItsClosedForm) {
  const LoneCase c = GetParam();
  const double hop = 5e-6;
  const double rate = 50e9;
  const int steps = c.steps_per_rank * (c.ranks - 1);
  const auto seconds = on_both([&](Engine engine) {
    World world({.network = c.network, .engine = engine});
    const auto edges = edges_of(world, c.ranks, rate);
    double end = 0;
    const auto driver = [&]() -> Program {
      co_await world.transfer(ring(edges, c.bytes, steps, hop, rate));
      end = world.now();
    };
    world.spawn("driver", driver());
    world.run();
    return std::vector<double>{end, world.traffic().at(0).total_bytes, world.traffic().at(0).bytes};
  });
  EXPECT_LT(relative(seconds.at(0), steps * (hop + c.bytes / (c.ranks * rate))), near);
  // Every rank sends `steps` chunks of bytes/ranks.
  EXPECT_LT(relative(seconds.at(1), steps * c.bytes), near);
  EXPECT_LT(relative(seconds.at(2), steps * c.bytes / c.ranks), near);
}

INSTANTIATE_TEST_SUITE_P(
    Network, LoneRing,
    testing::Values(LoneCase{"AnalyticAllReduce", NetworkKind::analytic, 8, 1e9, 2},
                    LoneCase{"FlowAllReduce", NetworkKind::flow, 8, 1e9, 2},
                    LoneCase{"FlowAllGather", NetworkKind::flow, 8, 1e9, 1},
                    LoneCase{"FlowTiny", NetworkKind::flow, 4, 33, 2},
                    LoneCase{"FlowHuge", NetworkKind::flow, 16, 3e12, 2},
                    LoneCase{"FlowManyRanks", NetworkKind::flow, 64, 123456789, 2}),
    [](const auto& test) { return test.param.name; });

// A ring, message by message. Rank i sends its chunk over edge i in every step; it may send the
// chunk of step k + 1 when the chunk of step k has arrived (fact 106).
struct Ring {
  World& world;
  std::vector<LinkId> edges;
  double chunk;
  int steps;
  std::deque<Inbox<int>> arrived{};

  void spawn() {
    for (std::size_t i = 0; i < edges.size(); ++i) arrived.emplace_back(world.executor()).post(0);
    for (std::size_t i = 0; i < edges.size(); ++i) world.spawn("rank", rank(i));
  }
  Program rank(std::size_t i) {
    const RouteId edge = world.executor().add_route({{edges[i]}});
    for (int step = 0; step < steps; ++step) {
      co_await arrived[i].receive();
      co_await world.executor().carry(edge, chunk);
      arrived[(i + 1) % edges.size()].post(step);
    }
    end = std::max(end, world.now());
  }
  double end = 0;
};

// The end of a ring whose two edges are disturbed at different times. A slow edge stalls every rank
// of a ring, so the delays add up.
double staggered(Engine engine, bool messages, int ranks, bool disturbed) {
  World world({.engine = engine});
  const double rate = 50e9;
  const double bytes = 1e9;
  const int steps = 2 * (ranks - 1);
  const double lone = steps * bytes / (ranks * rate);
  const auto edges = edges_of(world, ranks, rate);
  Ring by_message{world, edges, bytes / ranks, steps};
  const auto coupled = [&]() -> Program {
    co_await world.transfer(ring(edges, bytes, steps, 0, rate));
    by_message.end = world.now();
  };
  const auto disturb = [&](int edge) -> Program {
    TransferSpec spec;
    spec.bytes = lone / 4 * rate;
    spec.uses = {{edges[static_cast<std::size_t>(edge)], spec.bytes}};
    co_await world.transfer(spec);
  };
  if (messages) {
    by_message.spawn();
  } else {
    world.spawn("ring", coupled());
  }
  if (disturbed) {
    world.spawn("early", disturb(1), 0.1 * lone);
    world.spawn("late", disturb(ranks / 2), 0.9 * lone);
  }
  world.run();
  return by_message.end;
}

TEST(CoupledFlow, EqualsMessagesUnderStaggeredContention) {
  for (const int ranks : {8, 64}) {
    const auto ends = on_both(
        [&](Engine engine) { return std::vector<double>{staggered(engine, false, ranks, true)}; });
    const double messages = staggered(Engine::loop, true, ranks, true);
    EXPECT_LT(relative(ends[0], messages), 1e-3) << ranks << " ranks";
    // Each disturbance takes half of one edge for half of the lone time, so each adds a quarter of
    // the lone time, and both add up.
    EXPECT_LT(relative(messages, 1.5 * staggered(Engine::loop, true, ranks, false)), 1e-3);
  }
  const double simgrid =
      in_child([] { return std::vector<double>{staggered(Engine::simgrid, true, 8, true)}; })[0];
  EXPECT_LT(relative(simgrid, staggered(Engine::loop, true, 8, true)), near);
}

TEST(CoupledFlow, SharesALinkHalfAndHalf) {
  const auto ends = on_both([](Engine engine) {
    World world({.engine = engine});
    const LinkId nic = world.add_link("nic", "NIC", 10e9);
    std::vector<double> done(2);
    TransferSpec spec;
    spec.bytes = 1e9;
    spec.lone_bytes_per_second = 10e9;
    spec.uses = {{nic, 1e9}};
    const auto send = [&](std::size_t i) -> Program {
      co_await world.transfer(spec);
      done[i] = world.now();
    };
    for (std::size_t i = 0; i < 2; ++i) world.spawn("sender", send(i));
    world.run();
    return std::vector<double>{done[0], done[1], world.traffic().at(0).busy_seconds};
  });
  for (const double end : ends) EXPECT_LT(relative(end, 0.2), near);
}

// A collective that is slower than its links because of protocol overhead leaves the rest of the
// links to others.
TEST(CoupledFlow, RespectsTheLoneRateAndLeavesTheRest) {
  const auto ends = on_both([](Engine engine) {
    World world({.engine = engine});
    const LinkId nic = world.add_link("nic", "NIC", 10e9);
    std::vector<double> done(2);
    TransferSpec slow;
    slow.bytes = 1e9;
    slow.lone_bytes_per_second = 4e9;
    slow.uses = {{nic, 1e9}};
    TransferSpec greedy = slow;
    greedy.lone_bytes_per_second = 0;
    greedy.bytes = 1.5e9;
    greedy.uses = {{nic, 1.5e9}};
    const auto send = [&](const TransferSpec& spec, double& end) -> Program {
      co_await world.transfer(spec);
      end = world.now();
    };
    world.spawn("slow", send(slow, done[0]));
    world.spawn("greedy", send(greedy, done[1]));
    world.run();
    return done;
  });
  EXPECT_LT(relative(ends.at(0), 0.25), near);
  EXPECT_LT(relative(ends.at(1), 0.25), near);
}

// A hierarchical collective puts different bytes on its links; on its busiest link it must compete
// by that link's bytes.
TEST(CoupledFlow, WeighsLinksByTheirBytes) {
  const auto ends = on_both([](Engine engine) {
    World world({.engine = engine});
    const LinkId fast = world.add_link("nvlink", "NVLink", 300e9);
    const LinkId slow = world.add_link("nic", "NIC", 10e9);
    std::vector<double> done(2);
    TransferSpec collective;
    collective.bytes = 1e9;
    collective.lone_bytes_per_second = 5e9;
    collective.uses = {{fast, 1.75e9}, {slow, 2e9}};
    TransferSpec other;
    other.bytes = 1e9;
    other.uses = {{slow, 1e9}};
    const auto send = [&](const TransferSpec& spec, double& end) -> Program {
      co_await world.transfer(spec);
      end = world.now();
    };
    world.spawn("collective", send(collective, done[0]));
    world.spawn("other", send(other, done[1]));
    world.run();
    return std::vector<double>{done[0], done[1], world.traffic().at(0).bytes,
                               world.traffic().at(1).bytes};
  });
  EXPECT_LT(relative(ends.at(1), 0.2), near);  // half of the NIC each
  EXPECT_LT(relative(ends.at(0), 0.3), near);  // 3 GB over a NIC of 10 GB/s that is never idle
  EXPECT_EQ(ends.at(2), 1.75e9);
  EXPECT_EQ(ends.at(3), 3e9);
}

// 1.6 times the payload crosses the second link. The model rounds this to whole crossings: to two
// if the link can carry two in the lone time, which then compete as two of three flows; to one if
// two would make the lone transfer longer.
TEST(CoupledFlow, CrossesALinkAWholeNumberOfTimesThatItCanCarry) {
  const auto ends = on_both([](Engine engine) {
    const auto run = [engine](double second_rate, bool contended) {
      World world({.engine = engine});
      const LinkId nic = world.add_link("nic", "NIC", 10e9);
      const LinkId second = world.add_link("second", "PCIe", second_rate);
      TransferSpec collective;
      collective.bytes = 1e9;
      collective.uses = {{nic, 1e9}, {second, 1.6e9}};
      TransferSpec other;
      other.bytes = 1e9;
      other.uses = {{second, 1e9}};
      std::vector<double> done(2);
      const auto send = [&](const TransferSpec& spec, double& end) -> Program {
        co_await world.transfer(spec);
        end = world.now();
      };
      world.spawn("collective", send(collective, done[0]));
      if (contended) world.spawn("other", send(other, done[1]));
      world.run();
      return done;
    };
    if (engine == Engine::simgrid) return run(20e9, true);  // a process can start SimGrid only once
    std::vector<double> all = run(20e9, true);
    EXPECT_LT(relative(run(16.5e9, false)[0], 0.1), near);
    return all;
  });
  EXPECT_LT(relative(ends.at(0), 0.15), near);  // each crossing has a third of 20 GB/s
  EXPECT_LT(relative(ends.at(1), 0.15), near);
}

}  // namespace
}  // namespace lockstep::network_test
