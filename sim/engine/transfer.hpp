// A transfer's demand on the network: plain values that the cost model fills and the engine runs.
// Include it where costs are computed without a world.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// A link registered with World::add_link(). A folded link represents `count` equal links that
// always carry the same traffic.
using LinkId = int;

// The load of one transfer on one link.
struct LinkUse {
  LinkId link = 0;
  // Bytes that cross the link while the whole transfer runs, on one of the equal links.
  double bytes = 0;
  // Bytes over all equal links, for the traffic report; 0 = `bytes` times the link's count.
  double total_bytes = 0;
};

// One transfer: a collective, a push, a copy. Takes latency_seconds and then, while it is alone,
// exactly bytes / lone_bytes_per_second. Under contention it is one coupled flow: all `uses`
// progress together, and the slowest link sets the pace (exact for rings: tests/engine).
struct TransferSpec {
  double latency_seconds = 0;
  double bytes = 0;  // 0 = latency only
  // Rate that the cost model predicts without other traffic; 0 = the links alone limit the rate.
  double lone_bytes_per_second = 0;
  std::vector<LinkUse> uses;
  double channels = 0;              // multiprocessors taken while it runs (facts 105, 113)
  double hbm_bytes_per_second = 0;  // device memory traffic while it runs (fact 113)
  // CPU ranks: cores that the transfer's threads keep busy on every rank while it runs alone, and
  // its speed relative to alone while the ranks compute.
  double cores = 0;
  double speed_beside_compute = 1;
  // Relative speed of the ranks' compute while the transfer runs, besides the effect of `cores`.
  double compute_speed = 1;
  // For an observer: the operation ("all_reduce"), its content ("bucket"), and the content's number
  // (2; -1 = there is only one). The texts must live as long as the simulation.
  std::string_view name{}, what{};
  int which = -1;
};

// How transfers are executed.
enum class NetworkKind {
  analytic,  // latency + bytes / lone rate, no contention
  flow,      // one coupled flow per transfer: max-min sharing on every link
};

// The executor of the world's programs (engine/executor.hpp), as a scenario asks for it.
enum class Engine {
  automatic,  // SimGrid where transfers can meet on a link and are few, the loop elsewhere
  simgrid,
  loop,
};

// Traffic over the links of one class during the whole run.
struct LinkTotals {
  std::string link_class;
  double bytes = 0;         // on the busiest link of the class
  double total_bytes = 0;   // on all links of the class
  double busy_seconds = 0;  // time in which the busiest link carried at least one transfer
};

}  // namespace lockstep
