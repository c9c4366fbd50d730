// A fluid model of concurrent transfers over shared links: every flow gets its max-min fair rate.
// The executor's own loop runs all flows on this network, and it agrees with SimGrid's sharing
// (tests/engine/).
//
// Flows over the same route always have the same rate, so a route is one processor-sharing queue in
// virtual time. Virtual time is the bytes that the route has served to each of its flows: a flow of
// b bytes that starts at virtual time v finishes at v + b, even if rates change in between.
// Thousands of asynchronous workers on a few routes cost O(routes) per event instead of O(flows).
//
// Routes are independent unless a link that can fill up connects them. Each connected part of the
// network has rates of its own, and a route's clock moves only when its rate changes.
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

// Links, routes and the flows on them. Calls must have times `now` in ascending order.
class FluidNetwork {
 public:
  // Returns the link's number.
  // REQUIRES: bytes_per_second > 0.
  int add_link(double bytes_per_second);
  // Returns the number of a route for flows over `links`, each at most as fast as `cap` (bytes/s).
  // A link listed k times carries k times the bytes. A route without links and cap delivers at
  // once.
  // REQUIRES: cap > 0.
  int add_route(const std::vector<int>& links,
                double cap = std::numeric_limits<double>::infinity());

  // Starts `weight` equal flows of `bytes` each, which finish together. Returns a number for
  // drop(); complete() reports `tag`.
  std::int64_t start(int route, double bytes, int weight, int tag, double now);
  // Removes flows before their completion; `weight` as for start().
  void drop(int route, std::int64_t flow, int weight, double now);
  // Changes a link's capacity from `now` on, also for flows under way.
  void set_capacity(int link, double bytes_per_second, double now);

  // Time of the next completion if no further flow starts; infinity without flows.
  double next_completion();
  // Removes the flows that complete by `now` or at the same moment (to clock_precision). Returns
  // their tags, in the order in which they were started; valid until the next call.
  // REQUIRES: now <= next_completion().
  const std::vector<int>& complete(double now);

  // REQUIRES: no flow completes before `now`.
  void advance_to(double now);

  // Bytes that crossed the link so far, and seconds during which it carried a flow, up to `now`.
  double bytes_carried(int link) const;
  double busy_seconds(int link, double now) const;

 private:
  // `weight` equal flows, in a route's queue.
  struct Flow {
    double finish;       // virtual time of the route at which it completes
    std::int64_t order;  // number of the start
    int tag;
    int weight;
    bool operator<(const Flow& other) const {
      return finish != other.finish ? finish < other.finish : order < other.order;
    }
  };
  // A link of a route, and how often each flow crosses it.
  struct Crossing {
    int link = 0;
    int times = 1;
  };
  // A route's use of a link that can fill up.
  struct Load {
    std::size_t slot = 0;  // of the link in the route's part
    double times = 1;      // crossings by each flow
  };
  struct Link {
    double capacity = 0;
    double busy = 0;          // seconds with flows up to busy_since
    double busy_since = 0;    // meaningful while active > 0
    int active = 0;           // routes over it that have flows
    std::vector<int> routes;  // all routes over it
  };
  struct Route {
    double cap = 0;
    double weight = 0;            // number of flows on it
    double rate = 0;              // of each flow; 0 = not known yet
    double since = 0;             // time up to which `served` and `carried` are known
    double served = 0;            // virtual time
    double carried = 0;           // bytes of all flows
    double next_finish = 0;       // Flow::finish of its next flow
    double end = 0;               // time at which that flow completes
    std::span<const Load> loads;  // in the loads of its part
    int part = -1;
    bool capped = false;  // its cap may bind
    bool fixed = false;   // has its rate, while share() computes rates
  };
  // The flows of a route.
  struct Queue {
    std::vector<Crossing> crossings;
    LeastFirst<Flow> flows;
    std::vector<std::int64_t> dropped;  // flows that are still in `flows`, never on top
  };
  // A connected part of the network. Data of the inner loop, by slot (a link that can fill up),
  // laid out contiguously for the cache.
  struct Part {
    std::vector<int> links;
    std::vector<std::vector<int>> routes;  // with flows over it, by cap, then number
    // `users` is the number of flows, each as often as it crosses the link.
    std::vector<double> capacity, users;
    // While share() computes rates: the capacity and the flows of routes without a rate, and their
    // quotient.
    std::vector<double> left, open;
    std::vector<double> shares;
    std::vector<Load> loads;  // of all routes
    std::vector<int> active;  // routes with flows, by cap, then number
    bool known = true;        // whether the rates belong to the present flows
  };

  bool before(int a, int b) const;  // by cap, then number
  // Divides the network into parts; needed after a new route or another capacity.
  void lay_out();
  std::vector<bool> links_that_fill() const;
  // Computes all unknown rates.
  void share_all() {
    if (!laid_out_ || !unknown_.empty()) share_unknown();
  }
  void share_unknown();
  // Computes the rates of a part's routes; returns its next completion.
  double share(Part& part);
  double share_alone(const Part& part);
  void set_rate(Route& route, double rate);
  // Moves the route's virtual time and byte count to the present.
  void settle(Route& route);
  void forget_rates(Route& route);
  void join(int route);
  // The route's first flow has come, or its last flow has gone.
  void activate(int route);
  void deactivate(int route);
  void change_users(int route, int weight);
  // Called after the top flow was removed, or a flow was dropped.
  void leave(int route, int weight);

  std::vector<Link> links_;
  std::vector<Route> routes_;
  std::vector<Queue> queues_;  // by route
  std::vector<Part> parts_;
  std::vector<double> next_;                       // by part: time of its next completion
  std::vector<int> unknown_;                       // parts with unknown rates
  std::vector<std::pair<std::int64_t, int>> due_;  // order and tag of flows that complete now
  std::vector<int> completed_;                     // scratch: routes, then the tags of the answer
  bool laid_out_ = true;
  double now_ = 0;
  std::int64_t started_ = 0;
};

}  // namespace lockstep
