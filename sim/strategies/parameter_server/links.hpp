// The links between the workers and parameter servers of a machine (PCIe, NVLink, NICs, host
// memory), and the routes over them. A duplex link is two links, one for each direction; host
// memory is one link. build.cpp calls these functions while it builds a PsSystem; only
// measured_copy() is used during a run.
#pragma once

#include <vector>

#include "costs/collective.hpp"
#include "strategies/parameter_server/system.hpp"
#include "strategies/strategy.hpp"

namespace lockstep {

// A host or a GPU on which servers run.
struct ServerPlace {
  int node = 0;     // hosts without ranks are numbered after the nodes with ranks
  int gpu = -1;     // rank whose GPU holds the servers; -1 = they are in host memory
  int servers = 0;  // number of servers in this place
};
// The places of all servers. Server s is in place s mod the number of places. With N nodes:
//   cpu          one place: the host of node 0
//   gpu          server s on the GPU of rank s mod G; G is the number of ranks of node 0
//   worker-host  server s on the host of node s mod N
//   own-hosts    server s on host N + s, which has no ranks but is otherwise like the nodes' hosts
//   worker-and-own-hosts  server s on host s, and the last `own_hosts` hosts have no ranks
// Throws ConfigError if a place needs a network and the platform has none, or if there are more
// hosts without ranks than nodes, because more such hosts cannot shorten the exchange.
std::vector<ServerPlace> server_places(const Machine& machine, int ranks,
                                       const ParameterServerOptions& options);
// Number of servers: the option `servers`; for worker-and-own-hosts, the number of nodes +
// own_hosts.
int server_count(const Machine& machine, int ranks, const ParameterServerOptions& options);
inline const ServerPlace& place_of(const std::vector<ServerPlace>& places, int server) {
  return places[static_cast<std::size_t>(server) % places.size()];
}

struct PsLink {
  LinkClass kind = LinkClass::pcie;
  int place = 0;  // number of the node; of the leaf switch for an uplink; of the trunk for a trunk
  double capacity = 0;  // bytes/s in one direction; for host memory, in both directions together
  int part_of = -1;     // index of the link under which its traffic is reported; -1 = its own
  bool varies = false;  // its capacity changes during the run: neighbours, links that become slow
};

// All links and routes before simplification, with one way (both routes) from each rank to each
// place. PsRoute::links are indices into `links` of this struct.
struct PsLinks {
  struct Way {
    PsRoute push, pull;
    bool one_lane = false;  // as PsWay::one_lane
  };
  std::vector<PsLink> links;
  std::vector<std::vector<Way>> ways;  // [rank][place]
};
// The links and routes of a job. `one_lane`: at most one message of a worker is on the way to each
// server.
PsLinks server_links(const Job& job, const ParameterServerOptions& options,
                     const std::vector<ServerPlace>& places, bool one_lane = true);

// For CPU hosts with fewer cores than processes. By server: the rank that shares its core with the
// server; -1 = the server has a core of its own. On each host, the first server without its own
// core works on the core of the host's first rank, the next one on the second rank's core, and so
// on.
std::vector<int> shared_cores(const Job& job, const std::vector<ServerPlace>& places, int servers);

// The cost of a message without other traffic, on a route that has a measured curve
// (route.measured > 0).
CopyCost measured_copy(const Machine& machine, const PsRoute& route, double bytes);

// Sets the links and routes of the system, and makes a worker with its ways for each rank. Returns,
// for each simulated link, its index in PsLinks::links. A link with constant capacity becomes a
// rate cap of its route if only one flow can use it at the same time, and is left out if it is
// never the bottleneck. Ranks with equivalent routes then share their routes. Times do not change.
// Without `contention`, every link becomes a cap, so that no flow slows down another flow.
std::vector<int> simplify(const PsLinks& links, bool contention, PsSystem& system);

// Adds the bursts of neighbours and the links that become slow to the system, and sets its function
// `capacity`. `links` has the PsLink of each entry of system.links.
void add_changes(const Job& job, const std::vector<PsLink>& links, PsSystem& system);

}  // namespace lockstep
