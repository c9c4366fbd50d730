// A fluid model of concurrent transfers over shared links: every flow has its max-min fair rate.
// The executor's own loop (loop.cpp) runs all flows on this network, which agrees with SimGrid's
// sharing (tests/engine/).
//
// Flows over the same route always have the same rate, so a route is one processor-sharing queue in
// virtual time. The virtual time is the number of bytes that the route has served to each of its
// flows: a flow of b bytes that starts at virtual time v finishes at v + b, even if rates change in
// between. Thousands of asynchronous workers on a few routes therefore cost O(routes) per event,
// not O(flows).
//
// Two routes affect each other only if links that can fill up connect them. The rates of each
// connected part of the network are computed separately, and a route's virtual time is updated only
// when its rate changes.
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

// Links, routes and the flows on them.
// REQUIRES: the times `now` of successive calls ascend.
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

  // Starts `weight` equal flows of `bytes` each, which finish together. complete() will return
  // `tag`. Returns a number for drop().
  std::int64_t start(int route, double bytes, int weight, int tag, double now);
  // Removes flows before they complete.
  // REQUIRES: `weight` is the weight that start() received.
  void drop(int route, std::int64_t flow, int weight, double now);
  // Changes a link's capacity from `now` on, also for flows under way.
  void set_capacity(int link, double bytes_per_second, double now);

  // Time of the next completion if no further flow starts; infinity without flows.
  double next_completion();
  // Removes the flows that complete by `now` or at the same moment (to clock_precision). Returns
  // their tags in the order of their starts; the reference is valid until the next call.
  // REQUIRES: now <= next_completion().
  const std::vector<int>& complete(double now);

  // Moves the present to `now`.
  // REQUIRES: no flow completes before `now`.
  void advance_to(double now);

  // Bytes that crossed the link before the present (the latest `now` of a call), and seconds before
  // `now` in which the link carried a flow.
  double bytes_carried(int link) const;
  double busy_seconds(int link, double now) const;

 private:
  // `weight` equal flows in a route's queue.
  struct Flow {
    double finish;       // the route's virtual time at which it completes
    std::int64_t order;  // number of its start
    int tag;
    int weight;
    bool operator<(const Flow& other) const {
      return finish != other.finish ? finish < other.finish : order < other.order;
    }
  };
  // A link of a route, and how often each flow crosses the link.
  struct Crossing {
    int link = 0;
    int times = 1;
  };
  // How much a route uses a link that can fill up.
  struct Load {
    std::size_t slot = 0;  // place of the link in the route's part
    double times = 1;      // how often each flow crosses the link
  };
  struct Link {
    double capacity = 0;
    double busy = 0;          // seconds with flows up to busy_since
    double busy_since = 0;    // meaningful while active > 0
    int active = 0;           // number of routes over it that have flows
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
    std::span<const Load> loads;  // part of Part::loads
    int part = -1;                // index in parts_; -1 = lay_out() has not run yet
    bool capped = false;          // its cap may bind
    bool fixed = false;           // has its rate; used while share() computes rates
  };
  // The flows of a route.
  struct Queue {
    std::vector<Crossing> crossings;
    LeastFirst<Flow> flows;
    // Numbers of dropped flows that are still in `flows`, never on top.
    std::vector<std::int64_t> dropped;
  };
  // A connected part of the network. Vectors are indexed by slot (a link that can fill up in this
  // part) unless noted, so that the inner loop reads contiguous memory.
  struct Part {
    std::vector<int> links;
    // Routes over the link that have flows, by cap, then number.
    std::vector<std::vector<int>> routes;
    // `capacity` in bytes/s. `users` counts the flows over the link; a flow counts as often as it
    // crosses the link.
    std::vector<double> capacity, users;
    // While share() computes rates: the capacity that is left and the number of flows that have no
    // rate yet, and the quotient of both.
    std::vector<double> left, open;
    std::vector<double> shares;
    std::vector<Load> loads;  // of all routes, one route after the other
    std::vector<int> active;  // routes that have flows, by cap, then number
    bool known = true;        // false: flows have changed since the rates were computed
  };

  bool before(int a, int b) const;  // compares by cap, then by number
  // Divides the network into parts; needed after a new route or a change of capacity.
  void lay_out();
  std::vector<bool> links_that_fill() const;
  // Computes all unknown rates.
  void share_all() {
    if (!laid_out_ || !unknown_.empty()) share_unknown();
  }
  void share_unknown();
  // Computes the rates of a part's routes. Returns the time of the part's next completion.
  double share(Part& part);
  double share_alone(const Part& part);  // share() if only one route has flows
  void set_rate(Route& route, double rate);
  // Moves the route's virtual time and its byte count to the present.
  void settle(Route& route);
  // Marks the rates of the route's part as unknown.
  void forget_rates(Route& route);
  // Adds the route to the lists of routes with flows, of its part and of its links.
  void join(int route);
  // Called when the route's first flow has come, or its last flow has gone.
  void activate(int route);
  void deactivate(int route);
  // Counts `weight` more flows of the route; fewer if negative.
  void change_users(int route, int weight);
  // Called after the top flow of a route was removed, or after a flow was dropped.
  void leave(int route, int weight);

  std::vector<Link> links_;
  std::vector<Route> routes_;
  std::vector<Queue> queues_;  // by route
  std::vector<Part> parts_;
  std::vector<double> next_;                       // by part: time of its next completion
  std::vector<int> unknown_;                       // parts with unknown rates
  std::vector<std::pair<std::int64_t, int>> due_;  // order and tag of flows that complete now
  std::vector<int> completed_;  // scratch space of complete(): first routes, then tags
  bool laid_out_ = true;
  double now_ = 0;
  std::int64_t started_ = 0;
};

}  // namespace lockstep
