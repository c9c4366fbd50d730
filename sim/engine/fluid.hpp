// Concurrent transfers over shared links as a fluid: every flow gets its max-min fair rate, as the
// engine's flows do. Flows over the same route always have the same rate, so a route is one
// processor-sharing queue in virtual time: thousands of asynchronous workers on a few routes cost
// O(routes) per event instead of O(flows). Agrees with SimGrid's sharing (tests/engine/).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <queue>
#include <vector>

#include "core/index.hpp"

namespace lockstep {

class FluidNetwork {
 public:
  int add_link(double bytes_per_second);
  // Flows over `links`, each at most as fast as `cap`; a link listed k times carries k times the
  // bytes. A route without links and cap delivers at once.
  int add_route(std::vector<int> links, double cap = std::numeric_limits<double>::infinity());

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

  void advance_to(double now) { advance(now); }  // no flow may complete before `now`

  // Bytes that crossed the link so far, and seconds during which it carried a flow, up to `now`.
  double bytes_carried(int link) const { return links_[at(link)].carried; }
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
  struct Link {
    double capacity = 0;
    double carried = 0;
    double busy = 0;        // seconds up to busy_since
    double busy_since = 0;  // meaningful while users > 0
    std::int64_t users = 0;
    std::vector<int> routes;  // with flows over it, by cap, then number
    double left = 0;          // of the capacity, while rates are computed
    double open = 0;          // weight of the flows without a rate yet, likewise
    double share = 0;         // of each of them
    bool listed = false;      // in shared_
  };
  struct Route {
    std::vector<int> links;
    double cap = 0;
    std::priority_queue<Flow, std::vector<Flow>, std::greater<>> flows;
    std::vector<std::int64_t> dropped;  // still among `flows`, never on top
    std::int64_t users = 0;             // sum of weights
    double served = 0;                  // virtual time
    double rate = 0;                    // of one flow
    bool fixed = false;                 // has its rate, while rates are computed
  };

  void advance(double now);
  void share_links();
  std::vector<int>::iterator place_of(int route, std::vector<int>& routes);
  void activate(int route);
  void deactivate(int route);
  void change_users(Route& route, int weight);
  void leave(int route, int weight);  // after its top flow went

  std::vector<Link> links_;
  std::vector<Route> routes_;
  std::vector<int> active_;  // routes with flows, by cap, then number
  std::vector<int> shared_;  // links with flows, while rates are computed
  double now_ = 0;
  double next_time_ = 0;
  int next_route_ = -1;
  bool rates_known_ = true;  // rates and next_* are those of the present flows
  std::int64_t started_ = 0;
};

}  // namespace lockstep
