// Routes of parameter-server traffic (see links.hpp).
#include "strategies/parameter_server/links.hpp"

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

enum class End { out, in, both };

class Wiring {
 public:
  Wiring(const Job& job, PsLinks& result) : job_(job), machine_(job.machine), result_(result) {}

  // From the rank's device to the place (push) or back (pull).
  PsRoute route(int rank, const ServerPlace& place, bool push) {
    const int node = rank / machine_.gpus_per_node, place_node = place.node;
    PsRoute route;
    if (machine_.device.architecture == Architecture::cpu) {
      between_cpus(route, node, place_node, push);
    } else if (place.gpu >= 0) {
      to_gpu(route, rank, place.gpu, push);
    } else {
      take(route, host_device_copy(machine_, 1));
      pcie(route, rank, push);
      if (node != place_node) {
        take(route, host_host_copy(machine_, 1));
        staging(route, node);
        fabric(route, node, place_node, push);
      }
      memory(route, place_node, 1);
    }
    scale(route);
    return route;
  }

 private:
  using Name = std::tuple<LinkClass, int, int, End>;  // class, node or leaf, index there, direction

  int link(LinkClass kind, int place, int index, End end, double capacity) {
    const auto [entry, fresh] =
        links_.try_emplace({kind, place, index, end}, static_cast<int>(result_.links.size()));
    if (fresh) {
      const double speed = left(kind, place, {});
      result_.links.push_back({kind, place, speed * capacity / job_.communication_scale});
      result_.links.back().varies = varies(kind, place);
    }
    return entry->second;
  }

  // Whether some neighbour's bursts, or that it becomes slow, change what is left of it.
  bool varies(LinkClass kind, int place) const {
    const LinkMoment worst{std::numeric_limits<double>::infinity(),
                           std::vector<bool>(job_.stragglers.neighbours.size(), true)};
    return left(kind, place, worst) < left(kind, place, {});
  }
  double left(LinkClass kind, int place, const LinkMoment& moment) const {
    return speed_left(job_.stragglers, machine_.fabric, kind, place, moment);
  }

  // A copy's own latency and rate, whatever shares its links.
  static void take(PsRoute& route, const CopyCost& copy) {
    route.latency += copy.latency_seconds;
    if (copy.bytes_per_second > 0) route.cap = std::min(route.cap, copy.bytes_per_second);
  }

  // A curve, if there is one, tells for each message what it takes (PsSystem::flow); the
  // route has the rate of bulk data then.
  void between_cpus(PsRoute& route, int node, int place_node, bool push) {
    const bool local = node == place_node;
    CopyCost copy = local ? loopback_copy(machine_, bulk) : host_host_copy(machine_, bulk);
    route.cores = copy.cores / job_.communication_scale;
    if (copy.provenance != Provenance::modelled) {
      route.measured = local ? 1 : 2;
      copy.bytes_per_second = bulk / copy.seconds(bulk);
      copy.latency_seconds = 0;
    }
    take(route, copy);
    if (local) {
      memory(route, node, 2);
    } else {
      fabric(route, node, place_node, push, copy.bytes_per_second);
    }
  }

  // What one GPU sends to others of its node without NVLink, or receives from them: all of its
  // copies together reach what one of them does, and less than its PCIe link, on which they count.
  void between_gpus(PsRoute& route, int rank, bool from_gpu, double bytes_per_second) {
    pcie(route, rank, from_gpu);
    const int carrier = route.links.back();
    const int node = rank / machine_.gpus_per_node;
    const int index = machine_.gpus_per_node + rank % machine_.gpus_per_node;
    route.links.push_back(
        link(LinkClass::pcie, node, index, from_gpu ? End::out : End::in, bytes_per_second));
    result_.links[at(route.links.back())].part_of = carrier;
  }

  // GPUs behind one switch share its link to the host (fact 140).
  void pcie(PsRoute& route, int rank, bool from_gpu) {
    const int index = rank % machine_.gpus_per_node / std::max(1, machine_.pcie.gpus_per_switch);
    route.links.push_back(link(LinkClass::pcie, rank / machine_.gpus_per_node, index,
                               from_gpu ? End::out : End::in,
                               pcie_bytes_per_second(machine_.pcie)));
  }

  void memory(PsRoute& route, int node, int times) {
    if (machine_.host.memory_bandwidth <= 0) return;
    const int id = link(LinkClass::host_memory, node, 0, End::both, machine_.host.memory_bandwidth);
    route.links.insert(route.links.end(), at(times), id);
  }

  // Without GPUDirect a message is written to host memory and read again by the NIC.
  void staging(PsRoute& route, int node) {
    if (!machine_.fabric.gpu_direct) memory(route, node, 2);
  }

  // `least`: what one connection has been seen to reach.
  void fabric(PsRoute& route, int worker_node, int place_node, bool push, double least = 0) {
    const double rate =
        std::max(least, nic_payload_rate(machine_) * std::max(1, machine_.fabric.nics_per_node));
    const int from = push ? worker_node : place_node, to = push ? place_node : worker_node;
    route.links.push_back(link(LinkClass::nic, from, 0, End::out, rate));
    route.links.push_back(link(LinkClass::nic, to, 0, End::in, rate));
    uplinks(route, from, to);
    trunks(route, from, to);
  }

  // Nodes below one leaf switch share what leads above it, and those of other leaves are there.
  void uplinks(PsRoute& route, int from, int to) {
    const FabricSpec& tree = machine_.fabric;
    if (tree.nodes_per_leaf <= 0) return;
    const int leaf = from / tree.nodes_per_leaf, other = to / tree.nodes_per_leaf;
    if (leaf == other) return;
    const double rate = uplink_rate(machine_);
    route.links.push_back(link(LinkClass::uplink, leaf, 0, End::out, rate));
    route.links.push_back(link(LinkClass::uplink, other, 0, End::in, rate));
  }

  void trunks(PsRoute& route, int from, int to) {
    const std::vector<Trunk>& all = machine_.fabric.trunks;
    for (std::size_t t = 0; t < all.size(); ++t) {
      const bool there = is_on(all[t].one, from) && is_on(all[t].other, to);
      if (!there && !(is_on(all[t].other, from) && is_on(all[t].one, to))) continue;
      route.links.push_back(link(LinkClass::trunk, static_cast<int>(t), 0,
                                 there ? End::out : End::in, trunk_rate(machine_, all[t])));
    }
  }

  void to_gpu(PsRoute& route, int rank, int place_gpu, bool push) {
    const int node = rank / machine_.gpus_per_node;
    const int place_node = place_gpu / machine_.gpus_per_node;
    const int from = push ? rank : place_gpu, to = push ? place_gpu : rank;
    if (rank == place_gpu) {  // a copy inside device memory: read and written
      const double bytes = 1e9;
      route.cap = bytes / job_.costs->stream(2 * bytes, 1).busy;
      return;
    }
    if (node != place_node) {
      take(route, host_host_copy(machine_, 1));
      pcie(route, from, true);
      staging(route, node);
      staging(route, place_node);
      fabric(route, node, place_node, push);
      pcie(route, to, false);
      return;
    }
    const CopyCost copy = device_device_copy(machine_, bulk);
    take(route, copy);
    for (const LinkLoad& load : copy.links) {
      if (load.link == LinkClass::nvlink) {
        const int gpus = machine_.gpus_per_node;
        route.links.push_back(link(load.link, node, from % gpus, End::out, load.capacity));
        route.links.push_back(link(load.link, node, to % gpus, End::in, load.capacity));
      } else if (load.link == LinkClass::pcie) {
        between_gpus(route, from, true, copy.bytes_per_second);
        between_gpus(route, to, false, copy.bytes_per_second);
      } else if (load.link == LinkClass::host_memory) {
        memory(route, node, 2);
      }
    }
  }

  // An anchor's communication scale makes every transfer longer.
  void scale(PsRoute& route) const {
    route.latency *= job_.communication_scale;
    route.cap /= job_.communication_scale;
  }

  static constexpr double bulk = 64 * 1024.0 * 1024.0;  // bytes, long enough for the final rate
  const Job& job_;
  const Machine& machine_;
  PsLinks& result_;
  std::map<Name, int> links_;
};

}  // namespace

std::vector<ServerPlace> server_places(const Machine& machine, int ranks,
                                       const ParameterServerOptions& options) {
  const ServerPlacement placement = options.placement;
  const int nodes = (ranks + machine.gpus_per_node - 1) / machine.gpus_per_node;
  const bool own = placement == ServerPlacement::own_hosts;
  if (own && machine.max_nodes < 2) {
    throw file_error("", "parameter_server.placement",
                     "own-hosts needs a network, and the platform is a single node",
                     "cpu, gpu, worker-host");
  }
  int available = own ? options.servers : 1;
  if (placement == ServerPlacement::gpu) available = std::min(ranks, machine.gpus_per_node);
  if (placement == ServerPlacement::worker_host) available = nodes;
  std::vector<ServerPlace> places(at(std::min(available, options.servers)));
  for (int server = 0; server < options.servers; ++server) {
    ++places[at(server) % places.size()].servers;
  }
  for (int place = 0; place < static_cast<int>(places.size()); ++place) {
    if (own) places[at(place)].node = nodes + place;
    if (placement == ServerPlacement::worker_host) places[at(place)].node = place;
    if (placement == ServerPlacement::gpu) places[at(place)].gpu = place;
  }
  return places;
}

std::vector<int> shared_cores(const Job& job, const std::vector<ServerPlace>& places, int servers) {
  std::vector<int> result(at(servers), -1);
  if (job.machine.device.architecture != Architecture::cpu) return result;
  const int per_node = job.machine.gpus_per_node;
  std::vector<int> on_node(at(job.gpus / per_node + 1), 0);  // servers so far
  for (int server = 0; server < servers; ++server) {
    const int node = place_of(places, server).node;
    if (node * per_node >= job.gpus) continue;
    const int ranks = std::min(per_node, job.gpus - node * per_node);
    const int without_core = on_node[at(node)]++ - std::max(0, job.machine.host.cores - ranks);
    if (without_core >= 0) result[at(server)] = node * per_node + without_core % ranks;
  }
  return result;
}

CopyCost measured_copy(const Machine& machine, const PsRoute& route, double bytes) {
  return route.measured == 1 ? loopback_copy(machine, bytes) : host_host_copy(machine, bytes);
}

PsLinks server_links(const Job& job, const std::vector<ServerPlace>& places) {
  PsLinks result;
  Wiring wiring(job, result);
  for (int rank = 0; rank < job.gpus; ++rank) {
    std::vector<PsLinks::Way>& ways = result.ways.emplace_back();
    for (const ServerPlace& place : places) {
      PsRoute push = wiring.route(rank, place, true), pull = wiring.route(rank, place, false);
      ways.push_back({std::move(push), std::move(pull),
                      place.servers == 1 || rank / job.machine.gpus_per_node == place.node});
    }
  }
  return result;
}

namespace {

double crossings(const PsRoute& route, int link) {
  return static_cast<double>(std::count(route.links.begin(), route.links.end(), link));
}

// The routes that cross a link.
struct Usage {
  std::vector<const PsRoute*> routes;
  bool one_lane = false;  // messages of the last route wait for each other
  bool one_flow() const { return routes.empty() || (routes.size() == 1 && one_lane); }
};

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

// Is there another link that every route over `id` crosses too, and that is at least as tight for
// each?
bool never_tightest(int id, const Usage& use, const std::vector<PsLink>& links) {
  const auto load = [&](const PsRoute& route, int link) {
    return crossings(route, link) / links[at(link)].capacity;
  };
  const std::vector<int>& candidates = use.routes.front()->links;
  return std::any_of(candidates.begin(), candidates.end(), [&](int other) {
    return other != id &&
           std::all_of(use.routes.begin(), use.routes.end(), [&](const PsRoute* route) {
             const double here = load(*route, id), there = load(*route, other);
             return there > here ||
                    (there == here && other < id);  // of equal links the first stays
           });
  });
}

}  // namespace

SimulatedLinks simplify(const PsLinks& links, bool contention) {
  const std::vector<Usage> usage = usage_of(links);
  SimulatedLinks result;
  constexpr int kCap = -2, kDrop = -3;
  std::vector<int> simulated;  // of each link its index in the result, or what becomes of it
  for (std::size_t id = 0; id < links.links.size(); ++id) {
    const PsLink& link = links.links[id];
    if (!contention || (usage[id].one_flow() && !link.varies)) {
      simulated.push_back(kCap);
    } else if (!link.varies && never_tightest(static_cast<int>(id), usage[id], links.links)) {
      simulated.push_back(kDrop);
    } else {
      simulated.push_back(static_cast<int>(result.capacity.size()));
      result.capacity.push_back(link.capacity);
      result.original.push_back(static_cast<int>(id));
    }
  }

  std::map<PsRoute, int> known;
  const auto simplified = [&](const PsRoute& route) {
    PsRoute out = route;
    out.links.clear();
    for (const int id : route.links) {
      if (simulated[at(id)] >= 0) out.links.push_back(simulated[at(id)]);
      if (simulated[at(id)] != kCap) continue;
      out.cap = std::min(out.cap, links.links[at(id)].capacity / crossings(route, id));
    }
    const auto [entry, fresh] = known.try_emplace(out, static_cast<int>(result.routes.size()));
    if (fresh) result.routes.push_back(std::move(out));
    return entry->second;
  };
  for (const std::vector<PsLinks::Way>& ways : links.ways) {
    std::vector<PsWay>& row = result.ways.emplace_back();
    for (const auto& way : ways) row.push_back({simplified(way.push), 0, way.one_lane});
  }
  for (std::size_t rank = 0; rank < links.ways.size(); ++rank) {
    for (std::size_t place = 0; place < links.ways[rank].size(); ++place) {
      result.ways[rank][place].pull = simplified(links.ways[rank][place].pull);
    }
  }
  return result;
}

void add_changes(const Job& job, const std::vector<PsLink>& links, PsSystem& system) {
  for (const SlowLink& slow : job.stragglers.slow_links) {
    if (slow.from <= 0) continue;
    PsSlowing slowing{slow.from, {}};
    for (std::size_t i = 0; i < links.size(); ++i) {
      if (links[i].varies && links[i].kind == slow.link) {
        slowing.links.push_back(static_cast<int>(i));
      }
    }
    system.slowings.push_back(std::move(slowing));
  }
  std::vector<std::size_t> numbers;  // in the scenario
  for (std::size_t n = 0; n < job.stragglers.neighbours.size(); ++n) {
    const std::optional<Bursts> bursts = bursts_of(job, n);
    if (!bursts) continue;
    PsNeighbour neighbour{*bursts, {}};
    for (std::size_t i = 0; i < links.size(); ++i) {
      // Those of other nodes, too: what is left of them does not change.
      if (!links[i].varies || links[i].kind != job.stragglers.neighbours[n].link) continue;
      neighbour.links.push_back(static_cast<int>(i));
    }
    system.neighbours.push_back(std::move(neighbour));
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
