// The links between workers and parameter servers of a machine (PCIe, NVLink, NICs, host memory),
// and the routes over them. A duplex link is two links, one for each direction; host memory is one.
// build.cpp calls these functions while it builds a PsSystem; nothing here is used during a run.
#pragma once

#include <vector>

#include "costs/collective.hpp"
#include "strategies/parameter_server/system.hpp"
#include "strategies/strategy.hpp"

namespace lockstep {

// A host or GPU on which servers run.
struct ServerPlace {
  int node = 0;     // hosts without ranks are numbered after the nodes
  int gpu = -1;     // rank whose GPU holds the servers; -1 = in host memory
  int servers = 0;  // that run in this place
};
// The places of all servers. Server s runs in place s mod the number of places. With N nodes:
//   cpu          one place: the host of node 0
//   gpu          server s on the GPU of rank s mod G, G = ranks of node 0
//   worker-host  server s on the host of node s mod N
//   own-hosts    server s on host N + s, which is like the nodes' hosts and has no ranks
//   worker-and-own-hosts  server s on host s, and the last `own_hosts` hosts have no ranks
// Throws ConfigError if a place needs a network that the platform lacks, or if there are more hosts
// without ranks than nodes: beyond that number they cannot shorten the exchange.
std::vector<ServerPlace> server_places(const Machine& machine, int ranks,
                                       const ParameterServerOptions& options);
// Number of servers: the option `servers`, or nodes + own_hosts for worker-and-own-hosts.
int server_count(const Machine& machine, int ranks, const ParameterServerOptions& options);
inline const ServerPlace& place_of(const std::vector<ServerPlace>& places, int server) {
  return places[static_cast<std::size_t>(server) % places.size()];
}

struct PsLink {
  LinkClass kind = LinkClass::pcie;
  int place = 0;  // number of the node; for an uplink of the leaf switch; for a trunk of the trunk
  double capacity = 0;  // bytes/s in one direction; for host memory in both directions together
  int part_of = -1;     // index of the link on which its traffic is reported; -1 = on itself
  bool varies = false;  // has less capacity at times: neighbors, links that become slow
};

// All links and routes before simplification: one way from each rank to each place. PsRoute::links
// are indices into `links` of this struct.
struct PsLinks {
  struct Way {
    PsRoute push, pull;
    bool one_lane = false;
  };
  std::vector<PsLink> links;
  std::vector<std::vector<Way>> ways;  // [rank][place]
};
// The links and routes of a job. `one_lane`: a worker has at most one message at a time on its way
// to a server.
PsLinks server_links(const Job& job, const ParameterServerOptions& options,
                     const std::vector<ServerPlace>& places, bool one_lane = true);

// By server, the rank that shares its core with the server, for CPU hosts with fewer cores than
// processes. -1 = the server has a core of its own. On each host the first server without a core of
// its own works on the core of the host's first rank, the next one on the second rank's.
std::vector<int> shared_cores(const Job& job, const std::vector<ServerPlace>& places, int servers);

// Cost of a lone message on a route with a measured curve (route.measured > 0).
CopyCost measured_copy(const Machine& machine, const PsRoute& route, double bytes);

// Sets links and routes of the system, and a worker for each rank with its ways; returns the index
// in PsLinks::links of each simulated link. A link whose capacity is constant becomes a rate cap of
// its route if one flow at a time uses it, and is dropped if it is never the bottleneck. Ranks with
// equivalent routes then share the same routes. Times stay the same. Without contention every link
// becomes a cap, so no flow slows down another.
std::vector<int> simplify(const PsLinks& links, bool contention, PsSystem& system);

// Adds bursts of neighbors and links that become slow to the system, and sets its function
// `capacity`. `links`: the PsLink of each entry of system.links.
void add_changes(const Job& job, const std::vector<PsLink>& links, PsSystem& system);

}  // namespace lockstep
