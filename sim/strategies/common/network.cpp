// Makes links by class, and turns costs (sim/costs) into transfers of the engine. One link may
// represent all links of its class, because a collective loads all links of the class equally; each
// transfer states its total over all links itself.
#include "strategies/common/network.hpp"

#include <algorithm>
#include <functional>
#include <optional>

#include "costs/interference.hpp"
#include "strategies/common/stragglers.hpp"

namespace lockstep {

namespace {

// A program that applies a change to a link. It is spawned at the time of the change.
Program slow_down(std::function<void()> change) {
  change();
  co_return;
}

}  // namespace

Collective collective_of(ExchangeKind kind) {
  switch (kind) {
    case ExchangeKind::all_reduce:
      return Collective::all_reduce;
    case ExchangeKind::all_gather:
      return Collective::all_gather;
    case ExchangeKind::reduce_scatter:
      return Collective::reduce_scatter;
    case ExchangeKind::all_to_all:
      return Collective::all_to_all;
    case ExchangeKind::shift:
      break;
  }
  return Collective::send_recv;
}

double communicator_bytes(const Machine& machine, const CommGroup& group) {
  if (group.ranks() == 1 || machine.device.architecture == Architecture::cpu) return 0;
  // For each connected channel of a ring: 10 MiB on the receiving side and 2 MiB on the sending
  // side.
  constexpr double per_channel = 12.0 * 1024 * 1024;
  return communicator_channels(nccl_system(machine, group)) * per_channel;
}

PricedTransfer JobNetwork::collective(const CommGroup& group, Collective kind, double bytes) {
  CollectiveCost cost = collective_cost(job_.machine, group, kind, bytes);
  // All groups of the job communicate at the same time, and total_bytes must count the traffic of
  // all groups. On links of single GPUs, the cost counts one group. On links that the GPUs of a
  // node share, it counts all concurrent groups of the node.
  const int ranks = kind == Collective::send_recv ? 1 : std::max(1, group.ranks());
  const int groups = std::max(1, job_.mesh.stage_gpus() / ranks);
  for (LinkLoad& load : cost.links) {
    const bool shared = load.link != LinkClass::nvlink && load.link != LinkClass::pcie;
    load.total_bytes *= static_cast<double>(groups) / (shared ? group.concurrent : 1);
  }
  // If the measured time is shorter than the platform's link rates allow, the measurement wins: the
  // link's load is reduced to the bytes that the link can carry in this time.
  if (cost.provenance != Provenance::modelled) {
    for (LinkLoad& load : cost.links) {
      load.bytes =
          std::min(load.bytes, load.capacity * cost.transfer_seconds * job_.communication_scale);
    }
  }
  PricedTransfer result =
      priced(cost.latency_seconds, cost.transfer_seconds, bytes, cost.links, &group);
  result.provenance = cost.provenance;
  result.spec.name = EnumNames<Collective>::names[static_cast<std::size_t>(kind)];
  result.spec.channels = cost.channels;
  if (cost.transfer_seconds > 0) {
    result.spec.hbm_bytes_per_second =
        cost.device_memory_bytes / (cost.transfer_seconds * job_.communication_scale);
  }
  if (cost.compute_speed > 0 && cost.speed_beside_compute > 0) {
    // These speeds were measured. An anchor's scale lengthens the collective without adding bytes,
    // so at each moment it takes less from compute.
    constexpr double least = 0.05;
    result.spec.compute_speed =
        std::clamp(1 - (1 - cost.compute_speed) / job_.communication_scale, least, 1.0);
    result.spec.speed_beside_compute = cost.speed_beside_compute;
  } else if (cost.cores > 0) {
    result.spec.cores = cost.cores / job_.communication_scale;
    result.spec.speed_beside_compute =
        share_cores(cores_per_rank(job_.machine, job_.mesh.gpus()), result.spec.cores)
            .communication;
  }
  return result;
}

PricedTransfer JobNetwork::host_device_copy(double bytes) {
  const CopyCost cost = lockstep::host_device_copy(job_.machine, bytes);
  const double seconds = bytes > 0 ? bytes / cost.bytes_per_second : 0;
  PricedTransfer result = priced(cost.latency_seconds, seconds, bytes, cost.links, nullptr);
  result.provenance = cost.provenance;
  // The costs describe one GPU's copy; every GPU of the job makes one.
  for (std::size_t i = 0; i < result.spec.uses.size(); ++i) {
    result.spec.uses[i].total_bytes = cost.links[i].total_bytes * job_.mesh.stage_gpus();
  }
  return result;
}

// Adds the loads as uses of links, and declares on which links transfers of different groups may
// meet. `group` is null for copies.
PricedTransfer JobNetwork::priced(double latency, double seconds, double bytes,
                                  const std::vector<LinkLoad>& loads, const CommGroup* group) {
  PricedTransfer result;
  result.spec.latency_seconds = latency * job_.communication_scale;
  const double lone = seconds * job_.communication_scale;
  if (lone > 0) {
    result.spec.bytes = bytes;
    result.spec.lone_bytes_per_second = bytes / lone;
  }
  for (const LinkLoad& load : loads) {
    if (load.bytes <= 0 || load.capacity <= 0) continue;
    const LinkId id = link(load.link, everywhere, load.capacity);
    result.spec.uses.push_back({id, load.bytes, load.total_bytes});
    if (!group) continue;  // copies are only counted, so they cannot meet other transfers
    const auto [known, first] = group_.try_emplace(id, *group);
    if (first || known->second != *group) world_.meet(id, !first);
  }
  result.seconds = result.spec.latency_seconds + lone;
  return result;
}

LinkId JobNetwork::link(LinkClass kind, int place, double full, int count) {
  const auto known = links_.find({kind, place});
  if (known != links_.end()) return known->second;
  const std::string name = EnumNames<LinkClass>::names[static_cast<std::size_t>(kind)];
  // The rate at a given time. If a link represents all links of its class, it has the rate of the
  // slowest one, because one slow link slows down a whole collective.
  const auto now = [this, kind, place, full](double time) {
    const LinkMoment moment{time, sending_};
    if (place == everywhere) return full * least_speed_left(job_, kind, moment);
    return full * speed_left(job_.stragglers, job_.machine.fabric, kind, place, moment);
  };
  const LinkId id = world_.add_link(name, name, now(0), count);
  links_.emplace(std::pair(kind, place), id);
  // Slow links and neighbours change the rate while the world runs.
  const auto change = [this, id, now] { world_.set_capacity(id, now(world_.now())); };
  const Stragglers& stragglers = job_.stragglers;
  for (const SlowLink& slow : stragglers.slow_links) {
    if (slow.link != kind || slow.from <= 0) continue;
    world_.varies(id);
    world_.spawn("slow link", slow_down(change), slow.from);
  }
  for (std::size_t i = 0; i < stragglers.neighbours.size(); ++i) {
    const std::optional<Bursts> bursts = bursts_of(job_, i);
    if (stragglers.neighbours[i].link != kind || !bursts) continue;
    world_.varies(id);
    world_.spawn_beside("neighbour",
                        play_bursts(world_.over(), *bursts, [this, i, change](bool sends) {
                          sending_[i] = sends;
                          change();
                        }));
  }
  return id;
}

}  // namespace lockstep
