// The machine's links in the simulated world, and what collectives and copies ask of them. Turns
// the cost room's answers (costs/collective.hpp) into transfers of the engine.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "costs/collective.hpp"
#include "engine/world.hpp"
#include "strategies/strategy.hpp"

namespace lockstep {

// One collective or copy, priced: what the engine runs and where the price comes from.
struct PricedTransfer {
  TransferSpec spec;
  double seconds = 0;  // alone
  Provenance provenance = Provenance::modelled;
};

// The transfer that carries an exchange out; a shift is a message from each rank to the next.
Collective collective_of(ExchangeKind kind);

// Device memory that a communicator's buffers take, outside the caching allocator (fact 110). 0 on
// CPUs and for one rank.
double communicator_bytes(const Machine& machine, const CommGroup& group);

class JobNetwork {
 public:
  JobNetwork(World& world, const Job& job)
      : world_(world), job_(job), sending_(job.stragglers.neighbours.size(), false) {}

  // Call before World::run(): links are made when they are first needed. `bytes` as in
  // collective_cost().
  // Collectives of one CommGroup must go to one communicator: they never meet each other.
  PricedTransfer collective(const CommGroup& group, Collective kind, double bytes);
  // Between one GPU and pinned memory of its host; all GPUs of the job do it at once on links of
  // their own.
  PricedTransfer host_device_copy(double bytes);
  // `count` equal links, of so many bytes/s each, of one node; uplinks of one leaf switch. Slow links and
  // neighbours take from them what they do there. The same for the same place.
  LinkId link(LinkClass kind, int place, double bytes_per_second, int count = 1);

 private:
  PricedTransfer priced(double latency, double seconds, double bytes,
                        const std::vector<LinkLoad>& loads, const CommGroup* group);

  World& world_;
  const Job& job_;
  static constexpr int everywhere = -1;  // the place of a link that stands for all of its class
  std::map<std::pair<LinkClass, int>, LinkId> links_;
  std::map<LinkId, CommGroup> group_;  // that has collectives on a link; of several the first
  std::vector<bool> sending_;          // by neighbour, of those that send in bursts
};

}  // namespace lockstep
