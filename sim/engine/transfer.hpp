// The resources that a transfer needs: plain values that the cost model fills and the engine
// executes. Code that computes costs without a world includes this header only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// Number of a link that World::add_link() registered. A folded link represents `count` equal links
// that always carry the same traffic.
using LinkId = int;

// The load of one transfer on one link.
struct LinkUse {
  LinkId link = 0;
  // Bytes that cross one of the equal links during the whole transfer.
  double bytes = 0;
  // Bytes over all equal links, for the traffic report; 0 = `bytes` times the link's count.
  double total_bytes = 0;
};

// One transfer: a collective, a push, a copy. Without other traffic it takes latency_seconds and
// then exactly bytes / lone_bytes_per_second, or, if this rate is 0, the time of its slowest link.
// Under contention it is one coupled flow: all `uses` progress together, and the slowest link sets
// the pace (exact for rings: tests/engine).
struct TransferSpec {
  double latency_seconds = 0;
  double bytes = 0;  // 0 = latency only
  // Rate that the cost model predicts without other traffic; 0 = the links alone limit the rate.
  double lone_bytes_per_second = 0;
  std::vector<LinkUse> uses;
  double channels = 0;  // multiprocessors that it occupies while it runs (facts 105, 113)
  double hbm_bytes_per_second = 0;  // its device memory traffic while it runs (fact 113)
  // CPU ranks. `cores`: number of cores that the transfer's threads occupy on every rank that does
  // not compute. `speed_beside_compute`: the transfer's speed while the ranks compute, divided by
  // its speed without compute.
  double cores = 0;
  double speed_beside_compute = 1;
  // Speed of the ranks' compute while the transfer runs, relative to compute without it, apart from
  // the effect of `cores`.
  double compute_speed = 1;
  // For an observer: the operation ("all_reduce"), its content ("bucket"), and the content's number
  // (2; -1 = there is only one). The texts must live as long as the simulation.
  std::string_view name{}, what{};
  int which = -1;
};

// The model of the network.
enum class NetworkKind {
  analytic,  // each transfer takes its time without other traffic: no contention
  flow,      // one coupled flow per transfer: max-min sharing on every link
};

// The executor of the world's programs (engine/executor.hpp), as a scenario requests it.
enum class Engine {
  automatic,  // SimGrid if transfers are few and can meet on a link, else the loop
  simgrid,
  loop,
};

// Traffic over the links of one class during the whole run.
struct LinkTotals {
  std::string link_class;
  double bytes = 0;         // on the link of the class with the most bytes
  double total_bytes = 0;   // on all links of the class
  double busy_seconds = 0;  // time in which the busiest link carried at least one transfer
};

}  // namespace lockstep
