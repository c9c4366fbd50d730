// The communication graphs of synchronous ranks: senders, receivers, and the costs of their
// messages. Used by D-PSGD (ring) and SGP (exponential graph) in gossip.cpp.
//
// Example with 4 ranks. The ring has one shift of distance 1 in both directions. The exponential
// graph has shifts of distance 1 and 2.
#pragma once

#include <vector>

#include "strategies/common/context.hpp"
#include "strategies/gossip/options.hpp"

namespace lockstep {

// One exchange: every rank sends its parameters to the rank that is `distance` places further on
// the ring of all ranks.
struct Shift {
  int distance = 1;
  bool both_ways = false;  // also to the rank that is `distance` places back

  int messages() const { return both_ways ? 2 : 1; }  // number of messages that a rank sends
};

// The exchanges of a graph. Each averaging makes one exchange, in turn; after the last exchange
// comes the first one. Empty if there is one rank, and for pairs.
std::vector<Shift> shifts_of(const GossipGraph& graph, int ranks);
// The ranks from which `rank` receives in an exchange among `ranks` ranks.
std::vector<int> senders(const Shift& shift, int rank, int ranks);

// The cost of an exchange: all ranks send messages of `bytes` at the same time, by the costs of
// send_recv. Messages inside nodes and between nodes travel at the same time; the transfer loads
// the links of both kinds.
PricedTransfer price(const Job& job, JobNetwork& network, const Shift& shift, double bytes);

}  // namespace lockstep
