// The machine's links in the simulated world, and the demands of collectives and copies on them. A
// strategy prices every transfer by a JobNetwork before the world runs. JobNetwork turns the prices
// of the cost room (costs/collective.hpp) into transfers of the engine (engine/transfer.hpp).
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "costs/collective.hpp"
#include "engine/world.hpp"
#include "strategies/strategy.hpp"

namespace lockstep {

// One priced collective or copy: the transfer for the engine, and the provenance of its price.
struct PricedTransfer {
  TransferSpec spec;
  double seconds = 0;  // of the transfer alone, latency included
  Provenance provenance = Provenance::modelled;
};

// The collective that performs an exchange; a shift is a message from each rank to the next.
Collective collective_of(ExchangeKind kind);

// Device memory that a communicator's buffers take, outside the caching allocator (fact 110). 0 on
// CPUs and for one rank.
double communicator_bytes(const Machine& machine, const CommGroup& group);

// Keeps references to the world and the job, which must outlive it.
class JobNetwork {
 public:
  JobNetwork(World& world, const Job& job)
      : world_(world), job_(job), sending_(job.stragglers.neighbours.size(), false) {}

  // Prices a collective of a group, while all such groups of the job communicate. `bytes` as in
  // collective_cost().
  // REQUIRES: World::run() has not begun, because links are made at their first use. Collectives of
  // one CommGroup must go to one communicator: they never meet each other.
  PricedTransfer collective(const CommGroup& group, Collective kind, double bytes);
  // Prices a copy of `bytes` between each GPU and pinned memory of its host; all GPUs of the job
  // copy at once on links of their own.
  // REQUIRES: as above.
  PricedTransfer host_device_copy(double bytes);
  // `count` equal links of a place (the number of a node; for uplinks of a leaf switch), each with
  // `bytes_per_second`. Slow links and neighbors reduce the rate by their share at this place.
  // Returns the same link for the same class and place.
  LinkId link(LinkClass kind, int place, double bytes_per_second, int count = 1);

 private:
  PricedTransfer priced(double latency, double seconds, double bytes,
                        const std::vector<LinkLoad>& loads, const CommGroup* group);

  World& world_;
  const Job& job_;
  static constexpr int everywhere = -1;  // the place of a link that stands for all of its class
  std::map<std::pair<LinkClass, int>, LinkId> links_;
  std::map<LinkId, CommGroup> group_;  // by link, the first group that has collectives on it
  std::vector<bool> sending_;          // by neighbor: it sends a burst at present
};

}  // namespace lockstep
