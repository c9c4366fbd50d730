// Concurrent transfers over shared links as a fluid: every flow gets its max-min fair rate, as the
// engine's flows do. Flows over the same route always have the same rate, so a route is one
// processor-sharing queue in virtual time: thousands of asynchronous workers on a few routes cost
// O(routes) per event instead of O(flows). Routes that no link that can fill up connects never slow
// each other down: each such part of the network has its rates for itself, and a route's clock
// moves only when its rate changes. Agrees with SimGrid's sharing (tests/engine/).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <queue>
#include <span>
#include <vector>

#include "core/index.hpp"

namespace lockstep {

class FluidNetwork {
 public:
  int add_link(double bytes_per_second);
  // Flows over `links`, each at most as fast as `cap`; a link listed k times carries k times the
  // bytes. A route without links and cap delivers at once.
  int add_route(const std::vector<int>& links,
                double cap = std::numeric_limits<double>::infinity());

  // `weight` equal flows that start together and finish together, `bytes` each.
  // Its number, for drop().
  std::int64_t start(int route, double bytes, int weight, int tag, double now);
  // A flow that has not completed goes away.
  void drop(int route, std::int64_t flow, int weight, double now);
  void set_capacity(int link, double bytes_per_second, double now);

  // When the next flow completes if none is started before; infinity without flows.
  double next_completion();
  // Removes the flow that completes next and returns its tag. The clock moves to its completion.
  int complete_next();

  void advance_to(double now);  // no flow may complete before `now`

  // Bytes that crossed the link so far, and seconds during which it carried a flow, up to `now`.
  double bytes_carried(int link) const;
  double busy_seconds(int link, double now) const;

 private:
  struct Flow {
    double finish;  // in the route's virtual time (bytes served to each of its flows)
    std::int64_t order;
    int tag;
    int weight;
    bool operator>(const Flow& other) const {
      return finish != other.finish ? finish > other.finish : order > other.order;
    }
  };
  struct Crossing {
    int link = 0;
    int times = 1;
  };
  // The same of a link that can fill up.
  struct Load {
    std::size_t slot = 0;  // of the route's part
    double times = 1;
  };
  struct Link {
    double capacity = 0;
    double busy = 0;        // seconds up to busy_since
    double busy_since = 0;  // meaningful while users > 0
    std::int64_t users = 0;
    std::vector<int> routes;  // over it
  };
  struct Route {
    double cap = 0;
    double weight = 0;            // of all its flows
    double rate = 0;              // of one flow; 0 = not known yet
    double since = 0;             // up to when the next two are known
    double served = 0;            // virtual time
    double carried = 0;           // bytes of all flows
    double end = 0;               // when its next flow completes
    std::span<const Load> loads;  // of its part
    int part = -1;
    bool fixed = false;  // has its rate, while rates are computed
  };
  struct Queue {  // of a route
    std::vector<Crossing> crossings;
    std::priority_queue<Flow, std::vector<Flow>, std::greater<>> flows;
    std::vector<std::int64_t> dropped;  // still among `flows`, never on top
  };
  // What is computed over and over lies close together. By slot, a link that can fill up:
  struct Part {
    std::vector<int> links;
    std::vector<std::vector<int>> routes;  // with flows over it, by cap, then number
    std::vector<double> left;              // of its capacity, while rates are computed
    std::vector<double> open;              // weight of the flows without a rate yet, likewise
    std::vector<double> shares;            // of each of them
    std::vector<Load> loads;               // of all routes
    std::vector<int> active;               // routes with flows, by cap, then number
    std::uint64_t shared = 0;              // how often
    bool known = true;                     // rates are those of the present flows
  };
  struct Completion {
    double time;
    int route;
    std::uint64_t shared;  // Part::shared then; it is void when that has changed
  };

  bool before(int a, int b) const;  // by cap, then number
  bool later(const Completion& a, const Completion& b) const;
  Part& part_of(int route) { return parts_[at(routes_[at(route)].part)]; }
  double next_of_parts();
  void find_due();
  void lay_out();
  std::vector<bool> links_that_fill() const;
  void share_all();
  void share(Part& part);
  void settle(Route& route);
  void forget_rates(Route& route);
  void activate(int route);
  void deactivate(int route);
  void change_users(int route, int weight);
  void leave(int route, int weight);  // after its top flow went

  std::vector<Link> links_;
  std::vector<Route> routes_;
  std::vector<Queue> queues_;  // by route
  std::vector<Part> parts_;
  std::vector<int> unknown_;      // parts whose rates are not known
  std::vector<Completion> next_;  // a heap, the earliest first
  std::vector<int> due_;          // routes with flows that complete now, the last one first
  bool laid_out_ = true;
  double now_ = 0;
  std::int64_t started_ = 0;
};

}  // namespace lockstep
