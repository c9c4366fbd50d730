// A fluid model of concurrent transfers over shared links: every flow gets its max-min fair rate.
// The executor's own loop runs all flows on it. Flows over the same route always have the same
// rate, so a route is one processor-sharing queue in virtual time: thousands of asynchronous
// workers on a few routes cost O(routes) per event instead of O(flows). Routes are independent
// unless a link that can fill up connects them. Each connected part of the network has rates of its
// own, and a route's clock moves only when its rate changes. Agrees with SimGrid's sharing
// (tests/engine/).
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "core/index.hpp"
#include "engine/least_first.hpp"

namespace lockstep {

class FluidNetwork {
 public:
  int add_link(double bytes_per_second);
  // Flows over `links`, each at most as fast as `cap`; a link listed k times carries k times the
  // bytes. A route without links and cap delivers at once.
  int add_route(const std::vector<int>& links,
                double cap = std::numeric_limits<double>::infinity());

  // `weight` equal flows that start together and finish together, `bytes` each. Returns a number
  // for drop().
  std::int64_t start(int route, double bytes, int weight, int tag, double now);
  // Removes a flow that has not completed.
  void drop(int route, std::int64_t flow, int weight, double now);
  void set_capacity(int link, double bytes_per_second, double now);

  // Time of the next completion if no further flow starts; infinity without flows.
  double next_completion();
  // Removes the flows that complete by `now`, and flows that complete at the same moment. `now`
  // must not be later than next_completion(). Returns their tags, in the order in which they were
  // started; valid until the next call.
  const std::vector<int>& complete(double now);

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
    bool operator<(const Flow& other) const {
      return finish != other.finish ? finish < other.finish : order < other.order;
    }
  };
  struct Crossing {
    int link = 0;
    int times = 1;
  };
  // State of a link that can fill up.
  struct Load {
    std::size_t slot = 0;  // of the route's part
    double times = 1;
  };
  struct Link {
    double capacity = 0;
    double busy = 0;          // seconds up to busy_since
    double busy_since = 0;    // meaningful while active > 0
    int active = 0;           // routes over it that have flows
    std::vector<int> routes;  // all over it
  };
  struct Route {
    double cap = 0;
    double weight = 0;            // of all its flows
    double rate = 0;              // of one flow; 0 = not known yet
    double since = 0;             // up to when the next two are known
    double served = 0;            // virtual time
    double carried = 0;           // bytes of all flows
    double next_finish = 0;       // Flow::finish of its next flow
    double end = 0;               // when that completes
    std::span<const Load> loads;  // of its part
    int part = -1;
    bool capped = false;  // its cap may bind
    bool fixed = false;   // has its rate, while rates are worked out
  };
  struct Queue {  // of a route
    std::vector<Crossing> crossings;
    LeastFirst<Flow> flows;
    std::vector<std::int64_t> dropped;  // still among `flows`, never on top
  };
  // Data of the inner loop, laid out contiguously for the cache. By slot, a link that can fill up:
  struct Part {
    std::vector<int> links;
    std::vector<std::vector<int>> routes;  // with flows over it, by cap, then number
    std::vector<double> capacity, users;   // `users` is the weight of all flows
    std::vector<double> left, open;  // of both, what no route has yet, while rates are worked out
    std::vector<double> shares;      // left over open
    std::vector<Load> loads;         // of all routes
    std::vector<int> active;         // routes with flows, by cap, then number
    bool known = true;               // whether rates belong to the present flows
  };

  bool before(int a, int b) const;  // by cap, then number
  void lay_out();
  std::vector<bool> links_that_fill() const;
  void share_all() {
    if (!laid_out_ || !unknown_.empty()) share_unknown();
  }
  void share_unknown();
  double share(Part& part);
  double share_alone(const Part& part);
  void set_rate(Route& route, double rate);
  void settle(Route& route);
  void forget_rates(Route& route);
  void join(int route);
  void activate(int route);
  void deactivate(int route);
  void change_users(int route, int weight);
  void leave(int route, int weight);  // after its top flow went, or one was dropped

  std::vector<Link> links_;
  std::vector<Route> routes_;
  std::vector<Queue> queues_;  // by route
  std::vector<Part> parts_;
  std::vector<double> next_;                       // by part: when its next flow completes
  std::vector<int> unknown_;                       // parts with unknown rates
  std::vector<std::pair<std::int64_t, int>> due_;  // order and tag of flows that complete now
  std::vector<int> completed_;
  bool laid_out_ = true;
  double now_ = 0;
  std::int64_t started_ = 0;
};

}  // namespace lockstep
