// The ways between workers and parameter servers on a machine: PCIe, NVLink, NICs and host memory,
// one link per direction where the hardware is duplex.
#pragma once

#include <vector>

#include "costs/collective.hpp"
#include "strategies/parameter_server/system.hpp"
#include "strategies/strategy.hpp"

namespace lockstep {

// Where the servers run. Several servers may share a place.
struct ServerPlaces {
  int count = 1;
  std::vector<int> of_server;  // place of each server
  std::vector<int> node;       // of each place
  std::vector<int> gpu;        // of each place: rank whose GPU it is; -1 = in host memory
  std::vector<int> servers;    // on each place
};
//   cpu          all on the host of node 0
//   gpu          server s on the GPU of rank s mod G, G = ranks of node 0
//   worker-host  server s on the host of node s mod N
//   own-hosts    server s on host N + s, which is like those of the nodes and has no ranks
// Throws ConfigError when there is no network to reach other hosts.
ServerPlaces server_places(const Machine& machine, int ranks,
                           const ParameterServerOptions& options);

struct PsLink {
  LinkClass kind = LinkClass::pcie;
  int place = 0;        // node; of an uplink leaf switch, of a trunk its number
  double capacity = 0;  // bytes/s, one way; of host memory, both ways together
  int part_of = -1;     // index of the link that its traffic counts on; -1 = its own
  bool varies = false;  // it has less capacity at times
};

struct PsLinks {
  std::vector<PsLink> links;
  std::vector<std::vector<PsRoute>> push, pull;  // [rank][place]; PsRoute::links index `links`
  std::vector<std::vector<bool>> one_lane;       // [rank][place]
};

// Cores of CPU hosts that have fewer of them than processes: a server without a core of its own
// works on that of a rank, the first one on the first rank's, and so on.
struct SharedCores {
  std::vector<int> of_server;  // -1 = one of its own
  std::vector<int> rank;       // whose core each of them is
};
SharedCores shared_cores(const Job& job, const ServerPlaces& places);

PsLinks server_links(const Job& job, const ServerPlaces& places);

// What the curve of a route that has one (route.measured > 0) says of a message alone.
CopyCost measured_copy(const Machine& machine, const PsRoute& route, double bytes);

// Not every link needs to be simulated: of those whose capacity stays, one that never carries two
// flows at a time becomes a cap of its only route, and one that is never the tightest on any of its
// routes is left out. Ranks whose routes are alike then have the very same ones. Times stay what
// they were. Without contention every link becomes a cap: nobody slows down anybody.
struct SimulatedLinks {
  std::vector<double> capacity;
  std::vector<int> original;  // index in PsLinks::links of each
  std::vector<PsRoute> routes;
  std::vector<std::vector<int>> push, pull;  // [rank][place] -> route
};
SimulatedLinks simplify(const PsLinks& links, bool contention);

// Bursts of neighbours and links that become slow on `links`, which are those of system.links.
void add_changes(const Job& job, const std::vector<PsLink>& links, PsSystem& system);

}  // namespace lockstep
