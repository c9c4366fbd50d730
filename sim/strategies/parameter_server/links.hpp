// The ways between workers and parameter servers on a machine: PCIe, NVLink, NICs and host memory,
// one link per direction where the hardware is duplex.
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
// How many there are; nodes and own_hosts say it for worker-and-own-hosts.
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

// On CPU hosts with fewer cores than processes: the rank on whose core each server works, the first
// server without a core of its own on the first rank's, and so on. -1 = a core of its own.
std::vector<int> shared_cores(const Job& job, const std::vector<ServerPlace>& places, int servers);

// What the curve of a route that has one (route.measured > 0) says of a message alone.
CopyCost measured_copy(const Machine& machine, const PsRoute& route, double bytes);

// Sets links and routes of the system, and a worker for each rank with its ways; returns the index
// in PsLinks::links of each simulated link. Of the links whose capacity stays, one that is used by
// one flow at a time becomes a rate cap of its route, and one that is never the bottleneck is
// dropped. Ranks whose routes are alike then have the very same ones. Times stay the same. Without
// contention every link becomes a cap: nobody slows down anybody.
std::vector<int> simplify(const PsLinks& links, bool contention, PsSystem& system);

// Bursts of neighbours and links that become slow on `links`, which are those of system.links.
void add_changes(const Job& job, const std::vector<PsLink>& links, PsSystem& system);

}  // namespace lockstep
