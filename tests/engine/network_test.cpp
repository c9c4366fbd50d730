// Do transfers take the time they should: alone (closed forms) and in competition (message level)?
#include <gtest/gtest.h>

#include <cmath>

#include "engine/world.hpp"
#include "in_child.hpp"

namespace lockstep {
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
  spec.ring_steps = steps;
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
  const auto seconds = in_child([&] {
    World world({.network = c.network});
    const auto edges = edges_of(world, c.ranks, rate);
    double end = 0;
    world.spawn("driver", [&] {
      world.transfer(ring(edges, c.bytes, steps, hop, rate));
      end = world.now();
    });
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
                    LoneCase{"FlowManyRanks", NetworkKind::flow, 64, 123456789, 2},
                    LoneCase{"MessageAllReduce", NetworkKind::message, 8, 1e9, 2},
                    LoneCase{"MessageReduceScatter", NetworkKind::message, 64, 123456789, 1}),
    [](const auto& test) { return test.param.name; });

// Two edges are disturbed at different times. In a ring a slow edge stalls everybody, so the delays
// add.
double staggered(NetworkKind network, int ranks, bool disturbed) {
  return in_child([&] {
           World world({.network = network});
           const double rate = 50e9;
           const double bytes = 1e9;
           const auto edges = edges_of(world, ranks, rate);
           double end = 0;
           world.spawn("ring", [&] {
             world.transfer(ring(edges, bytes, 2 * (ranks - 1), 0, rate));
             end = world.now();
           });
           const double lone = 2.0 * (ranks - 1) * bytes / (ranks * rate);
           const auto disturb = [&](double from, int edge) {
             world.sleep_until(from);
             TransferSpec spec;
             spec.bytes = lone / 4 * rate;
             spec.uses = {{edges[static_cast<std::size_t>(edge)], spec.bytes}};
             world.transfer(spec);
           };
           if (disturbed) {
             world.spawn("early", [&] { disturb(0.1 * lone, 1); });
             world.spawn("late", [&] { disturb(0.9 * lone, ranks / 2); });
           }
           world.run();
           return std::vector<double>{end};
         })
      .at(0);
}

TEST(CoupledFlow, EqualsMessagesUnderStaggeredContention) {
  for (const int ranks : {8, 64}) {
    const double flow = staggered(NetworkKind::flow, ranks, true);
    const double messages = staggered(NetworkKind::message, ranks, true);
    EXPECT_LT(relative(flow, messages), 1e-3) << ranks << " ranks";
    // Each disturbance shares one edge for half of the lone time: both delays count.
    EXPECT_LT(relative(messages, 1.5 * staggered(NetworkKind::message, ranks, false)), 1e-3);
  }
}

TEST(CoupledFlow, SharesALinkHalfAndHalf) {
  const auto ends = in_child([] {
    World world;
    const LinkId nic = world.add_link("nic", "NIC", 10e9);
    std::vector<double> done(2);
    TransferSpec spec;
    spec.bytes = 1e9;
    spec.lone_bytes_per_second = 10e9;
    spec.uses = {{nic, 1e9}};
    for (int i = 0; i < 2; ++i) {
      world.spawn("sender", [&, i] {
        world.transfer(spec);
        done[static_cast<std::size_t>(i)] = world.now();
      });
    }
    world.run();
    return std::vector<double>{done[0], done[1], world.traffic().at(0).busy_seconds};
  });
  for (const double end : ends) EXPECT_LT(relative(end, 0.2), near);
}

// A collective slower than its links (protocol overhead) leaves them room for others.
TEST(CoupledFlow, RespectsTheLoneRateAndLeavesTheRest) {
  const auto ends = in_child([] {
    World world;
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
    world.spawn("slow", [&] { world.transfer(slow), done[0] = world.now(); });
    world.spawn("greedy", [&] { world.transfer(greedy), done[1] = world.now(); });
    world.run();
    return done;
  });
  EXPECT_LT(relative(ends.at(0), 0.25), near);
  EXPECT_LT(relative(ends.at(1), 0.25), near);
}

// A hierarchical collective puts different bytes on its links; on the busiest it competes exactly.
TEST(CoupledFlow, WeighsLinksByTheirBytes) {
  const auto ends = in_child([] {
    World world;
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
    world.spawn("collective", [&] { world.transfer(collective), done[0] = world.now(); });
    world.spawn("other", [&] { world.transfer(other), done[1] = world.now(); });
    world.run();
    return std::vector<double>{done[0], done[1], world.traffic().at(0).bytes,
                               world.traffic().at(1).bytes};
  });
  EXPECT_LT(relative(ends.at(1), 0.2), near);  // half of the NIC each
  EXPECT_LT(relative(ends.at(0), 0.3), near);  // 3 GB over a NIC of 10 GB/s, never idle
  EXPECT_EQ(ends.at(2), 1.75e9);
  EXPECT_EQ(ends.at(3), 3e9);
}

TEST(ConnectionLimit, HoldsForEachTransferApart) {
  const auto ends = in_child([] {
    World world;
    const LinkId nic = world.add_link("nic", "NIC", 10e9);
    const LinkId tcp = world.add_connection_limit("tcp", 3e9);
    const EndpointId a = world.add_endpoint("a", {nic, tcp}, {});
    const EndpointId b = world.add_endpoint("b", {}, {});
    Mailbox& inbox = world.add_mailbox();
    for (int i = 0; i < 2; ++i) {
      world.spawn("sender",
                  [&] { world.send(a, b, {.latency_seconds = 0.5, .bytes = 3e9}, {}, inbox); });
    }
    world.run();
    return std::vector<double>{world.now(), static_cast<double>(inbox.size()),
                               static_cast<double>(world.traffic().size())};
  });
  EXPECT_LT(relative(ends.at(0), 1.5), near);
  EXPECT_EQ(ends.at(1), 2);
  EXPECT_EQ(ends.at(2), 1);  // limits carry no statistics
}

TEST(World, DeliversMessagesInOrderOfArrival) {
  const auto keys = in_child([] {
    World world;
    const LinkId nic = world.add_link("nic", "NIC", 1e9);
    const EndpointId a = world.add_endpoint("a", {nic}, {});
    const EndpointId b = world.add_endpoint("b", {}, {});
    Mailbox& inbox = world.add_mailbox();
    std::vector<double> seen;
    world.spawn_background("server", [&] {
      while (true) {
        const Message message = inbox.receive();
        seen.push_back(static_cast<double>(message.key));
        seen.push_back(message.arrived_at - message.sent_at);
      }
    });
    world.spawn("client", [&] {
      world.send_async(a, b, {.bytes = 1e9}, {.key = 1}, inbox);
      world.send_async(a, b, {.latency_seconds = 1e-3}, {.key = 2}, inbox);
      world.send_async(a, b, {.latency_seconds = 2e-3}, {.key = 3}, inbox);
      world.sleep_for(2);
    });
    world.run();
    return seen;
  });
  ASSERT_EQ(keys.size(), 6u);
  EXPECT_EQ(keys[0], 2);
  EXPECT_EQ(keys[2], 3);
  EXPECT_EQ(keys[4], 1);
  EXPECT_LT(relative(keys[1], 1e-3), near);
  EXPECT_LT(relative(keys[5], 1), near);
}

TEST(World, ReportsADeadlock) {
  EXPECT_THROW(in_child([] {
                 World world;
                 Mailbox& inbox = world.add_mailbox();
                 world.spawn("client", [&] { inbox.receive(); });
                 world.run();
                 return std::vector<double>{};
               }),
               std::runtime_error);
}

TEST(World, HandsOnAProgramsException) {
  try {
    in_child([] {
      World world;
      world.spawn("client", [&] {
        world.sleep_for(1);
        throw std::runtime_error("broken on purpose");
      });
      world.spawn("other", [&] { world.sleep_for(100); });
      world.run();
      return std::vector<double>{};
    });
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "broken on purpose");
  }
}

TEST(World, CanBeMadeOnlyOnce) {
  EXPECT_THROW(in_child([] {
                 { World world; }
                 World again;
                 return std::vector<double>{};
               }),
               std::runtime_error);
}

}  // namespace
}  // namespace lockstep
