// The ways between workers and parameter servers on a machine: PCIe, NVLink, NICs and host memory,
// one link per direction where the hardware is duplex. Used while a system is built (build.hpp),
// never during a run.
#pragma once

#include <vector>

#include "costs/collective.hpp"
#include "strategies/parameter_server/system.hpp"
#include "strategies/strategy.hpp"

namespace lockstep {

// Where servers run: server s in the place with number s mod the number of places.
struct ServerPlace {
  int node = 0;
  int gpu = -1;  // rank whose GPU it is; -1 = in host memory
  int servers = 0;
};
//   cpu          all on the host of node 0
//   gpu          server s on the GPU of rank s mod G, G = ranks of node 0
//   worker-host  server s on the host of node s mod N
//   own-hosts    server s on host N + s, which is like those of the nodes and has no ranks
//   worker-and-own-hosts  server s on host s, of which the last `own_hosts` have no ranks
// Throws ConfigError when there is no network to reach other hosts, or more of them than help.
std::vector<ServerPlace> server_places(const Machine& machine, int ranks,
                                       const ParameterServerOptions& options);
// Number of servers; nodes and own_hosts determine it for worker-and-own-hosts.
int server_count(const Machine& machine, int ranks, const ParameterServerOptions& options);
inline const ServerPlace& place_of(const std::vector<ServerPlace>& places, int server) {
  return places[static_cast<std::size_t>(server) % places.size()];
}

struct PsLink {
  LinkClass kind = LinkClass::pcie;
  int place = 0;        // node; of an uplink leaf switch, of a trunk its number
  double capacity = 0;  // bytes/s, one way; of host memory, both ways together
  int part_of = -1;     // index of the link that its traffic counts on; -1 = its own
  bool varies = false;  // it has less capacity at times
};

// PsRoute::links index `links`.
struct PsLinks {
  struct Way {
    PsRoute push, pull;
    bool one_lane = false;
  };
  std::vector<PsLink> links;
  std::vector<std::vector<Way>> ways;  // [rank][place]
};
// `one_lane`: a worker has one message at a time on its way to a server.
PsLinks server_links(const Job& job, const ParameterServerOptions& options,
                     const std::vector<ServerPlace>& places, bool one_lane = true);

// For CPU hosts with fewer cores than processes: the rank that shares its core with each server; -1
// = the server has a core of its own. The first server without a core of its own works on the first
// rank's core, and so on.
std::vector<int> shared_cores(const Job& job, const std::vector<ServerPlace>& places, int servers);

// Cost of a lone message on a route with a measured curve (route.measured > 0).
CopyCost measured_copy(const Machine& machine, const PsRoute& route, double bytes);

// Sets links and routes of the system, and a worker for each rank with its ways; returns the index
// in PsLinks::links of each simulated link. A link whose capacity is constant becomes a rate cap of
// its route if one flow at a time uses it, and is dropped if it is never the bottleneck. Ranks with
// equivalent routes then share the same routes. Times stay the same. Without contention every link
// becomes a cap, so no flow slows down another.
std::vector<int> simplify(const PsLinks& links, bool contention, PsSystem& system);

// Adds bursts of neighbours, and links that become slow, on `links`, the PsLinks of system.links.
void add_changes(const Job& job, const std::vector<PsLink>& links, PsSystem& system);

}  // namespace lockstep
