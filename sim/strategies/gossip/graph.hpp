// The communication graphs of synchronous ranks: senders, receivers, and the price of their
// messages. Used by the averager of D-PSGD (ring) and SGP (exponential graph) in gossip.cpp.
//
// Example: 4 ranks. ring: one shift of distance 1, both ways. exponential: shifts of distance 1 and
// 2.
#pragma once

#include <vector>

#include "strategies/common/context.hpp"
#include "strategies/gossip/options.hpp"

namespace lockstep {

// One exchange: every rank sends its parameters to the rank `distance` places further on the ring
// of all ranks.
struct Shift {
  int distance = 1;
  bool both_ways = false;  // also to the rank `distance` places back

  int messages() const { return both_ways ? 2 : 1; }  // that a rank sends
};

// The exchanges of a graph. They are made one per averaging, in turn, and then from the first
// again. Empty for one rank and for pairs.
std::vector<Shift> shifts_of(const GossipGraph& graph, int ranks);
// The ranks from which `rank` receives in an exchange among `ranks` ranks.
std::vector<int> senders(const Shift& shift, int rank, int ranks);

// Price of an exchange: messages of `bytes` from all ranks at once, by the costs of send_recv.
// Messages inside nodes and between nodes travel side by side; the transfer loads the links of
// both.
PricedTransfer price(const Job& job, JobNetwork& network, const Shift& shift, double bytes);

}  // namespace lockstep
