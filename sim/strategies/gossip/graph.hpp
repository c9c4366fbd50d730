// The communication graphs of synchronous ranks: senders, receivers, and the price of their
// messages. Used by D-PSGD and SGP.
#pragma once

#include <vector>

#include "strategies/common/context.hpp"
#include "strategies/gossip/options.hpp"

namespace lockstep {

// Every rank sends its parameters to the rank `distance` further along the ring of all ranks.
struct Shift {
  int distance = 1;
  bool both_ways = false;  // and to the one so far back

  int messages() const { return both_ways ? 2 : 1; }  // of a rank
};

// The exchanges of a graph, one after the other, repeated from the first. Empty for one rank, or
// for pairs.
std::vector<Shift> shifts_of(const GossipGraph& graph, int ranks);
// Ranks that send to `rank`.
std::vector<int> senders(const Shift& shift, int rank, int ranks);

// All ranks' messages of `bytes` each at once, by the costs of send_recv. Messages inside nodes and
// between them travel concurrently; `uses` contains both.
PricedTransfer price(const Job& job, JobNetwork& network, const Shift& shift, double bytes);

}  // namespace lockstep
