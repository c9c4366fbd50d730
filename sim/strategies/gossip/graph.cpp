// Makes the exchanges of a graph, and computes their costs by counting messages inside nodes and
// between nodes. The busiest rank and the busiest node determine the time of an exchange.
#include "strategies/gossip/graph.hpp"

#include <algorithm>

#include "core/index.hpp"

namespace lockstep {

namespace {

// How many messages a shift sends inside nodes and across nodes.
struct Volume {
  int inside = 0, across = 0;  // over all ranks
  int rank_inside = 0;         // number that the busiest rank receives inside its node
  // The number of messages that the busiest node receives from other nodes, and the largest number
  // of GPUs of one node that receive such messages.
  int node_across = 0, node_gpus = 0;
};

Volume volume_of(const Shift& shift, int ranks, int gpus_per_node) {
  Volume volume;
  int node_across = 0, node_gpus = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank % gpus_per_node == 0) node_across = node_gpus = 0;
    int inside = 0, across = 0;
    for (const int sender : senders(shift, rank, ranks)) {
      ++(sender / gpus_per_node == rank / gpus_per_node ? inside : across);
    }
    volume.inside += inside;
    volume.across += across;
    volume.rank_inside = std::max(volume.rank_inside, inside);
    node_across += across;
    node_gpus += across > 0 ? 1 : 0;
    volume.node_across = std::max(volume.node_across, node_across);
    volume.node_gpus = std::max(volume.node_gpus, node_gpus);
  }
  return volume;
}

// The cost of a message of `bytes` from each rank of `group`. The totals of links are scaled to
// `all_bytes`, because only some of the job's ranks send such a message.
PricedTransfer message(const Job& job, JobNetwork& network, const CommGroup& group, double bytes,
                       double all_bytes) {
  PricedTransfer result = network.collective(group, Collective::send_recv, bytes);
  const double counted = bytes * group.ranks() * job.mesh.gpus();
  for (LinkUse& use : result.spec.uses) use.total_bytes *= all_bytes / counted;
  return result;
}

}  // namespace

std::vector<Shift> shifts_of(const GossipGraph& graph, int ranks) {
  std::vector<Shift> shifts;
  if (std::holds_alternative<RingGraph>(graph) && ranks > 1) shifts = {{1, ranks > 2}};
  if (std::holds_alternative<ExponentialGraph>(graph)) {
    for (int distance = 1; distance < ranks; distance *= 2) shifts.push_back({distance, false});
  }
  return shifts;
}

std::vector<int> senders(const Shift& shift, int rank, int ranks) {
  std::vector<int> result{(rank + ranks - shift.distance) % ranks};
  if (shift.both_ways) result.push_back((rank + shift.distance) % ranks);
  return result;
}

// The slower kind of message determines the time; the links of both kinds are loaded.
PricedTransfer price(const Job& job, JobNetwork& network, const Shift& shift, double bytes) {
  const int ranks = job.mesh.gpus(), node = job.machine.gpus_per_node;
  const Volume volume = volume_of(shift, ranks, node);
  PricedTransfer result;
  if (volume.inside > 0) {
    const CommGroup group{.ranks_per_node = std::min(node, ranks)};
    result = message(job, network, group, volume.rank_inside * bytes, volume.inside * bytes);
  }
  if (volume.across == 0) return result;
  CommGroup group{.nodes = nodes_of(ranks, job.machine), .concurrent = volume.node_gpus};
  group.span = (shift.distance + node - 1) / node;
  PricedTransfer across = message(
      job, network, group, bytes * volume.node_across / volume.node_gpus, volume.across * bytes);
  if (across.seconds > result.seconds) std::swap(across, result);
  result.spec.uses.insert(result.spec.uses.end(), across.spec.uses.begin(), across.spec.uses.end());
  return result;
}

}  // namespace lockstep
