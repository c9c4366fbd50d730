// The machine's links in the simulated world, and the load of collectives and copies on them.
// JobNetwork turns costs (costs/collective.hpp) into transfers of the engine (engine/transfer.hpp).
// A strategy computes the cost of each of its transfers through a JobNetwork before the world runs.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "costs/collective.hpp"
#include "engine/world.hpp"
#include "strategies/strategy.hpp"

namespace lockstep {

// The cost of a collective or copy: the transfer for the engine, and the provenance of the cost.
struct PricedTransfer {
  TransferSpec spec;
  double seconds = 0;  // of the transfer without other traffic, including latency
  Provenance provenance = Provenance::modelled;
};

// The collective that performs an exchange. A shift is a message from each rank to the next.
Collective collective_of(ExchangeKind kind);

// Device memory that the buffers of a communicator take, outside the caching allocator (fact 110).
// 0 on CPUs and for a single rank.
double communicator_bytes(const Machine& machine, const CommGroup& group);

// Keeps references to the world and to the job, which must outlive the JobNetwork.
class JobNetwork {
 public:
  JobNetwork(World& world, const Job& job)
      : world_(world), job_(job), sending_(job.stragglers.neighbours.size(), false) {}

  // Computes the cost of a collective of one group. Assumes that all groups of this kind in the job
  // communicate at the same time. `bytes` is that of collective_cost().
  // REQUIRES: World::run() has not begun, because the first collective over a link makes the link.
  // One communicator must run all collectives of a CommGroup, because JobNetwork assumes that they
  // never overlap.
  PricedTransfer collective(const CommGroup& group, Collective kind, double bytes);
  // Computes the cost of a copy of `bytes` between each GPU and its host's pinned memory. All GPUs
  // of the job copy at the same time, each over links of its own.
  // REQUIRES: World::run() has not begun.
  PricedTransfer host_device_copy(double bytes);
  // Makes `count` equal links of one class at a place, each with `bytes_per_second`. The place is a
  // node's number, or for uplinks a leaf switch's number. Slow links and neighbours (other jobs;
  // straggler_options.hpp) reduce the rate at this place. Returns the same link for the same class
  // and place.
  LinkId link(LinkClass kind, int place, double bytes_per_second, int count = 1);

 private:
  PricedTransfer priced(double latency, double seconds, double bytes,
                        const std::vector<LinkLoad>& loads, const CommGroup* group);

  World& world_;
  const Job& job_;
  // The place of a link that represents all links of its class.
  static constexpr int everywhere = -1;
  std::map<std::pair<LinkClass, int>, LinkId> links_;
  std::map<LinkId, CommGroup> group_;  // by link: the group whose collective used the link first
  std::vector<bool> sending_;          // by neighbour: whether it sends a burst at present
};

}  // namespace lockstep
