// Builds the links and routes between the ranks and servers of a machine, and simplifies them for
// the simulation. Class Wiring follows each route from device to server and creates a link when a
// route crosses it for the first time. simplify() then removes links that cannot matter. Capacities
// are from the platform file, latencies and caps from the cost model's copies
// (costs/collective.hpp).
#include "strategies/parameter_server/links.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "core/errors.hpp"
#include "core/index.hpp"
#include "costs/collective_links.hpp"
#include "strategies/common/stragglers.hpp"

namespace lockstep {

namespace {

// Direction of a link as seen from its node, leaf switch or GPU. `both`: one link serves both
// directions.
enum class End { out, in, both };

class Wiring {
 public:
  // `own_hosts` is the rate of the NIC of a server's own host, divided by the rate of a node's NIC.
  // New links are appended to `result`.
  Wiring(const Job& job, double own_hosts, PsLinks& result)
      : job_(job),
        machine_(job.machine),
        result_(result),
        nodes_(nodes_of(job.mesh.gpus(), job.machine)),
        own_hosts_(own_hosts) {}

  // The route from the rank's device to the place (push), or back (pull).
  PsRoute route(int rank, const ServerPlace& place, bool push) {
    route_ = {};
    const int node = node_of(rank);
    const int from = push ? node : place.node, to = push ? place.node : node;
    if (machine_.device.architecture == Architecture::cpu) {
      between_cpus(from, to);
    } else if (place.gpu >= 0) {
      to_gpu(rank, place.gpu, push);
    } else {
      take(host_device_copy(machine_, 1));
      pcie(rank, push);
      if (from != to) {
        take(host_host_copy(machine_, 1));
        staging(node);
        fabric(from, to);
      }
      memory(place.node, 1);
    }
    // An anchor's communication scale lengthens every transfer.
    route_.latency *= job_.communication_scale;
    route_.cap /= job_.communication_scale;
    return route_;
  }

 private:
  using Name = std::tuple<LinkClass, int, int, End>;  // class, node or leaf, index there, direction

  // Appends a link to the route that is being built, and creates the link if it does not exist yet.
  // `capacity` is in bytes/s, without stragglers.
  void cross(LinkClass kind, int place, int index, End end, double capacity) {
    const auto [entry, fresh] =
        links_.try_emplace({kind, place, index, end}, static_cast<int>(result_.links.size()));
    route_.links.push_back(entry->second);
    if (!fresh) return;
    // Bursts of neighbours and links that become slow change the remaining capacity during the run.
    const LinkMoment worst{std::numeric_limits<double>::infinity(),
                           std::vector<bool>(job_.stragglers.neighbours.size(), true)};
    const double speed = left(kind, place, {});
    result_.links.push_back({kind, place, speed * capacity / job_.communication_scale});
    result_.links.back().varies = left(kind, place, worst) < speed;
  }
  // The share of a link's capacity, 0 to 1, that stragglers leave at this moment.
  double left(LinkClass kind, int place, const LinkMoment& moment) const {
    return speed_left(job_.stragglers, machine_.fabric, kind, place, moment);
  }

  // Adds a copy's latency to the route, and limits the route to the rate that the copy reaches
  // without other traffic.
  void take(const CopyCost& copy) {
    route_.latency += copy.latency_seconds;
    if (copy.bytes_per_second > 0) route_.cap = std::min(route_.cap, copy.bytes_per_second);
  }

  // Between processes of CPU hosts: over loopback within a host, over NICs between hosts. If a
  // measured curve exists, it determines the time of each message (PsSystem::flow); the route then
  // has the rate of bulk data and no latency.
  void between_cpus(int from, int to) {
    CopyCost copy = from == to ? loopback_copy(machine_, bulk) : host_host_copy(machine_, bulk);
    route_.cores = copy.cores / job_.communication_scale;
    if (copy.provenance != Provenance::modelled) {
      route_.measured = from == to ? 1 : 2;
      copy.bytes_per_second = bulk / copy.seconds(bulk);
      copy.latency_seconds = 0;
    }
    take(copy);
    from == to ? memory(from, 2) : fabric(from, to, copy.bytes_per_second);
  }

  // Traffic in one direction between a GPU and other GPUs of its node without NVLink. All copies of
  // the GPU together reach only the rate of a single copy, which is below the rate of the GPU's
  // PCIe link. The copies also count as traffic of that link.
  void beside_gpus(int rank, bool from_gpu, double bytes_per_second) {
    pcie(rank, from_gpu);
    const int carrier = route_.links.back(), gpus = machine_.gpus_per_node;
    cross(LinkClass::pcie, node_of(rank), gpus + rank % gpus, from_gpu ? End::out : End::in,
          bytes_per_second);
    result_.links[at(route_.links.back())].part_of = carrier;
  }

  // GPUs behind one switch share the switch's link to the host (fact 140).
  void pcie(int rank, bool from_gpu) {
    const int index = rank % machine_.gpus_per_node / std::max(1, machine_.pcie.gpus_per_switch);
    cross(LinkClass::pcie, node_of(rank), index, from_gpu ? End::out : End::in,
          pcie_bytes_per_second(machine_.pcie));
  }

  // The data cross the node's host memory `times` times; each read or write counts once.
  void memory(int node, int times) {
    const double bandwidth = machine_.host.memory_bandwidth;
    for (int i = 0; i < times && bandwidth > 0; ++i) {
      cross(LinkClass::host_memory, node, 0, End::both, bandwidth);
    }
  }

  // Without GPUDirect, a message is written to host memory, and the NIC reads it again.
  void staging(int node) {
    if (!machine_.fabric.gpu_direct) memory(node, 2);
  }

  // The network between two different nodes: both NICs, uplinks of leaf switches, trunks between
  // parts of the cluster. `least` is the measured rate of one connection, in bytes/s; a NIC must
  // not be slower.
  void fabric(int from, int to, double least = 0) {
    const FabricSpec& tree = machine_.fabric;
    const double nic =
        std::max(least, nic_payload_rate(machine_) * std::max(1, tree.nics_per_node));
    cross(LinkClass::nic, from, 0, End::out, from < nodes_ ? nic : own_hosts_ * nic);
    cross(LinkClass::nic, to, 0, End::in, to < nodes_ ? nic : own_hosts_ * nic);
    // Nodes below one leaf switch share the links above the switch; these links lead to the nodes
    // of other leaf switches.
    const int below = tree.nodes_per_leaf;
    if (below > 0 && from / below != to / below) {
      cross(LinkClass::uplink, from / below, 0, End::out, uplink_rate(machine_));
      cross(LinkClass::uplink, to / below, 0, End::in, uplink_rate(machine_));
    }
    for (std::size_t t = 0; t < tree.trunks.size(); ++t) {
      const Trunk& trunk = tree.trunks[t];
      const bool there = is_on(trunk.one, from) && is_on(trunk.other, to);
      if (!there && !(is_on(trunk.other, from) && is_on(trunk.one, to))) continue;
      cross(LinkClass::trunk, static_cast<int>(t), 0, there ? End::out : End::in,
            trunk_rate(machine_, trunk));
    }
  }

  // Between a rank and a server on a GPU. One of three cases: the rank's own GPU, a GPU of another
  // node, or another GPU of the same node (over NVLink, PCIe peer-to-peer, or host memory,
  // depending on the copy).
  void to_gpu(int rank, int place_gpu, bool push) {
    const int node = node_of(rank), place_node = node_of(place_gpu);
    const int from = push ? rank : place_gpu, to = push ? place_gpu : rank;
    if (rank == place_gpu) {  // a copy inside device memory is read and written
      const double bytes = 1e9;
      route_.cap = bytes / job_.costs->stream(2 * bytes, 1).busy;
      return;
    }
    if (node != place_node) {
      take(host_host_copy(machine_, 1));
      pcie(from, true);
      staging(node);
      staging(place_node);
      fabric(node_of(from), node_of(to));
      pcie(to, false);
      return;
    }
    const CopyCost copy = device_device_copy(machine_, bulk);
    take(copy);
    for (const LinkLoad& load : copy.links) {
      if (load.link == LinkClass::nvlink) {
        const int gpus = machine_.gpus_per_node;
        cross(load.link, node, from % gpus, End::out, load.capacity);
        cross(load.link, node, to % gpus, End::in, load.capacity);
      } else if (load.link == LinkClass::pcie) {
        beside_gpus(from, true, copy.bytes_per_second);
        beside_gpus(to, false, copy.bytes_per_second);
      } else if (load.link == LinkClass::host_memory) {
        memory(node, 2);
      }
    }
  }

  int node_of(int rank) const { return rank / machine_.gpus_per_node; }

  static constexpr double bulk = 64 * 1024.0 * 1024.0;  // bytes; long enough for the final rate
  const Job& job_;
  const Machine& machine_;
  PsLinks& result_;
  const int nodes_;  // number of nodes with ranks; servers' own hosts are numbered from nodes_ on
  const double own_hosts_;
  std::map<Name, int> links_;
  PsRoute route_;  // the route that is being built
};

}  // namespace

int server_count(const Machine& machine, int ranks, const ParameterServerOptions& options) {
  return options.placement == ServerPlacement::worker_and_own_hosts
             ? nodes_of(ranks, machine) + options.own_hosts
             : options.servers;
}

std::vector<ServerPlace> server_places(const Machine& machine, int ranks,
                                       const ParameterServerOptions& options) {
  const ServerPlacement placement = options.placement;
  const int nodes = nodes_of(ranks, machine);
  const bool own = placement == ServerPlacement::own_hosts;
  const bool both = placement == ServerPlacement::worker_and_own_hosts;
  if ((own || (both && options.own_hosts > 0)) && machine.max_nodes < 2) {
    throw file_error("", "parameter_server.placement",
                     enum_name(placement) + " needs a network, and the platform is a single node",
                     "cpu, gpu, worker-host");
  }
  if (both && options.own_hosts > nodes) {
    throw file_error("", "parameter_server.own_hosts",
                     fmt::format("{} beside {} node{} with GPUs: more than these have no use",
                                 options.own_hosts, nodes, nodes == 1 ? "" : "s"),
                     fmt::format("at most {}", nodes));
  }
  // The servers are distributed over the available places in turn; places are never more than
  // servers.
  const int servers = server_count(machine, ranks, options);
  int available = own || both ? servers : 1;
  if (placement == ServerPlacement::gpu) available = std::min(ranks, machine.gpus_per_node);
  if (placement == ServerPlacement::worker_host) available = nodes;
  std::vector<ServerPlace> places(at(std::min(available, servers)));
  for (int server = 0; server < servers; ++server) {
    ++places[at(server) % places.size()].servers;
  }
  for (int place = 0; place < static_cast<int>(places.size()); ++place) {
    if (own) places[at(place)].node = nodes + place;
    if (both || placement == ServerPlacement::worker_host) places[at(place)].node = place;
    if (placement == ServerPlacement::gpu) places[at(place)].gpu = place;
  }
  return places;
}

std::vector<int> shared_cores(const Job& job, const std::vector<ServerPlace>& places, int servers) {
  std::vector<int> result(at(servers), -1);
  if (job.machine.device.architecture != Architecture::cpu) return result;
  const int per_node = job.machine.gpus_per_node;
  // By node: number of servers so far.
  std::vector<int> on_node(at(job.mesh.gpus() / per_node + 1), 0);
  for (int server = 0; server < servers; ++server) {
    const int node = place_of(places, server).node;
    if (node * per_node >= job.mesh.gpus()) continue;
    const int ranks = std::min(per_node, job.mesh.gpus() - node * per_node);
    // Cores of the host beyond one for each rank belong to the servers. `without_core` counts
    // further servers from 0; these share the ranks' cores in turn.
    const int without_core = on_node[at(node)]++ - std::max(0, job.machine.host.cores - ranks);
    if (without_core >= 0) result[at(server)] = node * per_node + without_core % ranks;
  }
  return result;
}

CopyCost measured_copy(const Machine& machine, const PsRoute& route, double bytes) {
  return route.measured == 1 ? loopback_copy(machine, bytes) : host_host_copy(machine, bytes);
}

// A worker's messages to one place share a lane if the place has a single server, or if the place
// is on the worker's node, where a single copy engine moves them.
PsLinks server_links(const Job& job, const ParameterServerOptions& options,
                     const std::vector<ServerPlace>& places, bool one_lane) {
  PsLinks result;
  const std::optional<double> rate = options.server_nic_rate;
  Wiring wiring(job, rate ? *rate / job.machine.fabric.nic_bytes_per_second : 1, result);
  for (int rank = 0; rank < job.mesh.gpus(); ++rank) {
    std::vector<PsLinks::Way>& ways = result.ways.emplace_back();
    for (const ServerPlace& place : places) {
      PsRoute push = wiring.route(rank, place, true), pull = wiring.route(rank, place, false);
      const bool near = rank / job.machine.gpus_per_node == place.node;
      ways.push_back({std::move(push), std::move(pull), one_lane && (place.servers == 1 || near)});
    }
  }
  return result;
}

namespace {

// How often the route crosses the link; for example, host memory may be written and read.
double crossings(const PsRoute& route, int link) {
  return static_cast<double>(std::count(route.links.begin(), route.links.end(), link));
}

// The routes that cross a link.
struct Usage {
  std::vector<const PsRoute*> routes;
  bool one_lane = false;  // whether messages of the last route travel one after the other
  // Whether only one flow can use the link at the same time.
  bool one_flow() const { return routes.empty() || (routes.size() == 1 && one_lane); }
};

// By link: the routes that cross it.
std::vector<Usage> usage_of(const PsLinks& links) {
  std::vector<Usage> usage(links.links.size());
  for (const std::vector<PsLinks::Way>& ways : links.ways) {
    for (const PsLinks::Way& way : ways) {
      for (const PsRoute* route : {&way.push, &way.pull}) {
        for (const int id : route->links) {
          Usage& use = usage[at(id)];
          if (!use.routes.empty() && use.routes.back() == route) continue;  // crossed twice
          use.routes.push_back(route);
          use.one_lane = way.one_lane;
        }
      }
    }
  }
  return usage;
}

// Whether link `id` is never the bottleneck: some other link lies on every route over `id` and
// limits each of these routes at least as much. If both links limit equally, the link with the
// smaller number stays.
bool never_tightest(int id, const Usage& use, const std::vector<PsLink>& links) {
  const auto load = [&](const PsRoute& route, int link) {
    return crossings(route, link) / links[at(link)].capacity;
  };
  const std::vector<int>& candidates = use.routes.front()->links;
  return std::any_of(candidates.begin(), candidates.end(), [&](int other) {
    return other != id &&
           std::all_of(use.routes.begin(), use.routes.end(), [&](const PsRoute* route) {
             const double here = load(*route, id), there = load(*route, other);
             return there > here || (there == here && other < id);
           });
  });
}

}  // namespace

std::vector<int> simplify(const PsLinks& links, bool contention, PsSystem& system) {
  const std::vector<Usage> usage = usage_of(links);
  std::vector<int> original;            // result: by simulated link, its index in `links`
  constexpr int kCap = -2, kDrop = -3;  // the link becomes a cap, or is left out
  std::vector<int> simulated;           // by link: its index in the system, or kCap, or kDrop
  for (std::size_t id = 0; id < links.links.size(); ++id) {
    const PsLink& link = links.links[id];
    if (!contention || (usage[id].one_flow() && !link.varies)) {
      simulated.push_back(kCap);
    } else if (!link.varies && never_tightest(static_cast<int>(id), usage[id], links.links)) {
      simulated.push_back(kDrop);
    } else {
      simulated.push_back(static_cast<int>(original.size()));
      system.links.push_back(link.capacity);
      original.push_back(static_cast<int>(id));
    }
  }

  // Translates a route and returns its index in the system. Equal routes get the same index.
  std::map<PsRoute, int> known;
  const auto simple_route = [&](const PsRoute& route) {
    PsRoute out = route;
    out.links.clear();
    for (const int id : route.links) {
      if (simulated[at(id)] >= 0) out.links.push_back(simulated[at(id)]);
      if (simulated[at(id)] != kCap) continue;
      out.cap = std::min(out.cap, links.links[at(id)].capacity / crossings(route, id));
    }
    const auto [entry, fresh] = known.try_emplace(out, static_cast<int>(system.routes.size()));
    if (fresh) system.routes.push_back(std::move(out));
    return entry->second;
  };
  // All routes of pushes are numbered before all routes of pulls.
  for (const std::vector<PsLinks::Way>& ways : links.ways) {
    PsWorker& worker = system.workers.emplace_back();
    for (const auto& way : ways) worker.ways.push_back({simple_route(way.push), 0, way.one_lane});
  }
  for (std::size_t rank = 0; rank < links.ways.size(); ++rank) {
    for (std::size_t place = 0; place < links.ways[rank].size(); ++place) {
      system.workers[rank].ways[place].pull = simple_route(links.ways[rank][place].pull);
    }
  }
  return original;
}

void add_changes(const Job& job, const std::vector<PsLink>& links, PsSystem& system) {
  // All links of a class whose capacity changes during the run. A change may concern only the links
  // of some nodes; for the others, `capacity` then returns the same value as before.
  const auto varying = [&](LinkClass kind) {
    std::vector<int> result;
    for (std::size_t i = 0; i < links.size(); ++i) {
      if (links[i].varies && links[i].kind == kind) result.push_back(static_cast<int>(i));
    }
    return result;
  };
  for (const SlowLink& slow : job.stragglers.slow_links) {
    if (slow.from > 0) system.slowings.push_back({slow.from, varying(slow.link)});
  }
  std::vector<std::size_t> numbers;  // numbers of the neighbours in the scenario
  for (std::size_t n = 0; n < job.stragglers.neighbours.size(); ++n) {
    const std::optional<Bursts> bursts = bursts_of(job, n);
    if (!bursts) continue;
    system.neighbours.push_back({*bursts, varying(job.stragglers.neighbours[n].link)});
    numbers.push_back(n);
  }
  system.capacity = [stragglers = job.stragglers, fabric = job.machine.fabric, links, numbers](
                        int id, double time, const std::vector<bool>& sending) {
    LinkMoment now{time, std::vector<bool>(stragglers.neighbours.size(), false)};
    for (std::size_t n = 0; n < numbers.size(); ++n) now.sending[numbers[n]] = sending[n];
    const PsLink& link = links[at(id)];
    return link.capacity * speed_left(stragglers, fabric, link.kind, link.place, now) /
           speed_left(stragglers, fabric, link.kind, link.place, {});
  };
}

}  // namespace lockstep
