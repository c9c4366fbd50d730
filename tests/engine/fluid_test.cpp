// Do transfers that share links get max-min fair rates?
#include "engine/fluid.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace lockstep::fluid_test {
namespace {

// Completes the flows that end next; returns their tags.
std::vector<int> complete(FluidNetwork& network) {
  return network.complete(network.next_completion());
}

TEST(FluidNetwork, LoneFlowTakesBytesOverBandwidth) {
  FluidNetwork network;
  const int route = network.add_route({network.add_link(10)});
  network.start(route, 50, 1, 7, 2.0);
  EXPECT_DOUBLE_EQ(network.next_completion(), 7.0);
  EXPECT_EQ(complete(network), std::vector{7});
  EXPECT_EQ(network.next_completion(), std::numeric_limits<double>::infinity());
}

// At 1e8 s one unit of clock precision stands for fewer bytes than the last bit of the flow's
// bytes; the flow must complete all the same.
TEST(FluidNetwork, LongFlowOnASlowLinkCompletes) {
  FluidNetwork network;
  const int route = network.add_route({network.add_link(10)});
  network.start(route, 1e9, 1, 7, 0);
  EXPECT_DOUBLE_EQ(network.next_completion(), 1e8);
  EXPECT_EQ(complete(network), std::vector{7});
}

TEST(FluidNetwork, LateFlowSharesWhatIsLeft) {
  FluidNetwork network;
  const int route = network.add_route({network.add_link(10)});
  network.start(route, 100, 1, 1, 0);  // alone until 5 s: 50 bytes left, then 5/s each
  network.start(route, 20, 1, 2, 5);   // done at 9 s
  EXPECT_DOUBLE_EQ(network.next_completion(), 9);
  EXPECT_EQ(complete(network), std::vector{2});
  EXPECT_DOUBLE_EQ(network.next_completion(), 12);  // 30 bytes left at 10/s
  EXPECT_EQ(complete(network), std::vector{1});
  EXPECT_DOUBLE_EQ(network.bytes_carried(0), 120);
  EXPECT_DOUBLE_EQ(network.busy_seconds(0, 20), 12);
}

TEST(FluidNetwork, UnusedShareGoesToOthers) {
  FluidNetwork network;
  const int narrow = network.add_link(2), wide = network.add_link(10);
  const int through_both = network.add_route({narrow, wide});
  const int wide_only = network.add_route({wide});
  network.start(through_both, 20, 1, 1, 0);  // 2/s
  network.start(wide_only, 80, 1, 2, 0);     // 8/s
  EXPECT_DOUBLE_EQ(network.next_completion(), 10);
  EXPECT_EQ(complete(network), (std::vector{1, 2}));
}

TEST(FluidNetwork, CapBindsLikeAPrivateLink) {
  FluidNetwork network;
  const int link = network.add_link(10);
  const int capped = network.add_route({link}, 1);
  const int open = network.add_route({link});
  network.start(capped, 10, 1, 1, 0);
  network.start(open, 45, 1, 2, 0);
  EXPECT_DOUBLE_EQ(network.next_completion(), 5);
  EXPECT_EQ(complete(network), std::vector{2});
  EXPECT_DOUBLE_EQ(network.next_completion(), 10);
}

TEST(FluidNetwork, WeightCountsAsThatManyFlows) {
  FluidNetwork network;
  const int link = network.add_link(12);
  const int a = network.add_route({link}), b = network.add_route({link});
  network.start(a, 30, 3, 1, 0);  // three flows of 30 at 3/s each
  network.start(b, 30, 1, 2, 0);
  EXPECT_DOUBLE_EQ(network.next_completion(), 10);
  EXPECT_EQ(complete(network), (std::vector{1, 2}));
  EXPECT_DOUBLE_EQ(network.bytes_carried(link), 120);
}

TEST(FluidNetwork, CappedFlowsOfAnyWeightLeaveTheRest) {
  FluidNetwork network;
  const int link = network.add_link(12);
  const int capped = network.add_route({link}, 1);
  const int open = network.add_route({link});
  network.start(capped, 100, 3, 1, 0);  // three flows at 1/s each
  network.start(open, 45, 1, 2, 0);     // 9/s
  EXPECT_DOUBLE_EQ(network.next_completion(), 5);
}

TEST(FluidNetwork, LinkCrossedTwiceCarriesTwice) {
  FluidNetwork network;
  const int link = network.add_link(10);
  const int route = network.add_route({link, link});
  network.start(route, 50, 1, 1, 0);
  EXPECT_DOUBLE_EQ(network.next_completion(), 10);
}

TEST(FluidNetwork, RouteWithoutLinksDeliversAtOnce) {
  FluidNetwork network;
  const int route = network.add_route({});
  network.start(route, 1e12, 1, 1, 3);
  EXPECT_DOUBLE_EQ(network.next_completion(), 3);
  EXPECT_EQ(complete(network), std::vector{1});
}

// The two narrow links let less through than the wide link can carry. The wide link is left out of
// the computation of rates, but must count all bytes.
TEST(FluidNetwork, LinkThatCannotFillUpIsCountedAll) {
  FluidNetwork network;
  const int a = network.add_link(2), b = network.add_link(3), wide = network.add_link(5);
  const int over_a = network.add_route({a, wide}), over_b = network.add_route({b, wide});
  network.start(over_a, 20, 1, 1, 0);
  network.start(over_b, 60, 1, 2, 0);
  EXPECT_DOUBLE_EQ(network.next_completion(), 10);
  EXPECT_EQ(complete(network), std::vector{1});
  EXPECT_DOUBLE_EQ(network.next_completion(), 20);
  network.advance_to(15);
  EXPECT_DOUBLE_EQ(network.bytes_carried(wide), 20 + 45);
  EXPECT_DOUBLE_EQ(network.busy_seconds(wide, 15), 15);
  network.set_capacity(wide, 1, 15);  // the wide link becomes the limit for the last 15 bytes
  EXPECT_DOUBLE_EQ(network.next_completion(), 30);
  EXPECT_EQ(complete(network), std::vector{2});
  EXPECT_DOUBLE_EQ(network.busy_seconds(wide, 50), 30);
}

// A link is busy while at least one flow is on it, and idle between flows and after the last flow
// was dropped.
TEST(FluidNetwork, LinkIsBusyWhileItCarries) {
  FluidNetwork network;
  const int link = network.add_link(10), other = network.add_link(20);
  const int alone = network.add_route({link}), both = network.add_route({link, other, link});
  network.start(alone, 40, 1, 1, 1);
  network.start(alone, 40, 1, 2, 2);
  EXPECT_DOUBLE_EQ(network.busy_seconds(link, 4), 3);
  complete(network);
  EXPECT_EQ(complete(network), std::vector{2});  // 80 bytes, from 1 to 9 s
  const std::int64_t dropped = network.start(both, 1000, 1, 3, 20);
  const std::int64_t too = network.start(alone, 1000, 1, 4, 22);
  network.drop(both, dropped, 1, 25);
  network.drop(alone, too, 1, 26);
  EXPECT_DOUBLE_EQ(network.busy_seconds(link, 90), 8 + 6);
  EXPECT_DOUBLE_EQ(network.busy_seconds(other, 90), 5);
}

// 0.1 + 0.2 exceeds 0.3 in floating point, but both are the same moment; the flow that started
// first must be reported first.
TEST(FluidNetwork, EndsThatRoundingSetsApartAreOneMoment) {
  FluidNetwork network;
  const int a = network.add_route({network.add_link(1)});
  const int b = network.add_route({network.add_link(1)});
  network.start(b, 0.3, 1, 1, 0);
  network.start(a, 0.1, 1, 2, 0);
  EXPECT_EQ(complete(network), std::vector{2});
  network.start(a, 0.2, 1, 3, 0.1);
  EXPECT_EQ(complete(network), (std::vector{1, 3}));
  network.start(b, 0.1 + 0.2, 1, 4, 1);
  network.start(a, 0.3, 1, 5, 1);
  EXPECT_EQ(complete(network), (std::vector{4, 5}));
}

// A network that follows the definition of max-min fairness: every flow by itself, all links in
// every step.
class PlainNetwork {
 public:
  struct Flow {
    std::vector<int> links;
    double cap, left;
    int tag;
    double rate = -1;
  };
  std::vector<double> capacity;
  std::vector<Flow> flows;

  void share() {
    for (Flow& flow : flows) flow.rate = -1;
    while (true) {
      double least = std::numeric_limits<double>::infinity();
      int tightest = -1, capped = -1;
      for (int id = 0; id < static_cast<int>(capacity.size()); ++id) {
        double left = capacity[at(id)], open = 0;
        for (const Flow& flow : flows) {
          const auto times = std::count(flow.links.begin(), flow.links.end(), id);
          (flow.rate < 0 ? open : left) +=
              static_cast<double>(times) * (flow.rate < 0 ? 1 : -flow.rate);
        }
        if (open > 0 && left / open < least) {
          least = left / open;
          tightest = id;
        }
      }
      for (int i = 0; i < static_cast<int>(flows.size()); ++i) {
        if (flows[at(i)].rate < 0 && flows[at(i)].cap < least) {
          least = flows[at(i)].cap;
          capped = i;
        }
      }
      if (capped >= 0) {
        flows[at(capped)].rate = least;
      } else if (tightest >= 0) {
        for (Flow& flow : flows) {
          const auto times = std::count(flow.links.begin(), flow.links.end(), tightest);
          if (flow.rate < 0 && times > 0) flow.rate = least;
        }
      } else {
        return;
      }
    }
  }
  double next() {
    share();
    double seconds = std::numeric_limits<double>::infinity();
    for (const Flow& flow : flows) seconds = std::min(seconds, flow.left / flow.rate);
    return seconds;
  }
  void pass(double seconds) {
    for (Flow& flow : flows) flow.left -= seconds * flow.rate;
  }
};

RC_GTEST_PROP(FluidNetwork, CompletesFlowsAsTheDefinitionOfMaxMinSays, ()) {
  const auto draw = [](int low, int high) { return *rc::gen::inRange(low, high + 1); };
  FluidNetwork network;
  PlainNetwork plain;
  const int links = draw(1, 6), routes = draw(1, 8);
  for (int i = 0; i < links; ++i) {
    plain.capacity.push_back(draw(1, 40));
    network.add_link(plain.capacity.back());
  }
  std::vector<std::pair<std::vector<int>, double>> known;
  for (int i = 0; i < routes; ++i) {
    std::vector<int> over;
    for (int n = draw(1, 4); n > 0; --n) over.push_back(draw(0, links - 1));
    known.emplace_back(over, draw(0, 3) == 0 ? draw(1, 20) : 1e9);
    network.add_route(over, known.back().second);
  }
  double now = 0;
  const auto check = [&](double due) {
    RC_ASSERT(std::abs(network.next_completion() - due) <= 1e-9 * (1 + due));
  };
  for (int event = 0; event < 30; ++event) {
    const int kind = plain.flows.empty() ? 0 : draw(0, 5);
    if (kind <= 2) {
      const int route = draw(0, routes - 1);
      const double bytes = draw(1, 1000) + event / 64.0;
      network.start(route, bytes, 1, event, now);
      plain.flows.push_back({known[at(route)].first, known[at(route)].second, bytes, event});
    } else if (kind == 3) {
      const int link = draw(0, links - 1);
      plain.capacity[at(link)] = draw(1, 40);
      network.set_capacity(link, plain.capacity[at(link)], now);
    } else if (kind == 4) {
      const double half = plain.next() / 2;
      plain.pass(half);
      network.advance_to(now += half);
    } else {
      const double seconds = plain.next();
      check(now + seconds);
      plain.pass(seconds);
      now = std::max(now + seconds, network.next_completion());
      std::vector<int> done, expected;
      while (network.next_completion() <= now + 1e-9) {
        now = std::max(now, network.next_completion());
        for (const int tag : network.complete(now)) done.push_back(tag);
      }
      for (const auto& flow : plain.flows) {
        if (flow.left <= 1e-6) expected.push_back(flow.tag);
      }
      std::erase_if(plain.flows, [](const auto& flow) { return flow.left <= 1e-6; });
      std::sort(done.begin(), done.end());
      RC_ASSERT(done == expected);
    }
    if (!plain.flows.empty()) check(now + plain.next());
  }
  for (int id = 0; id < links; ++id) RC_ASSERT(network.bytes_carried(id) >= 0);
}

}  // namespace
}  // namespace lockstep::fluid_test
