// Costs of point-to-point copies: between a GPU and its host, between two GPUs of a node, between
// two hosts, between two processes of a host. On CPUs a measured send_recv curve gives the time if
// there is one; otherwise the latency and bandwidth of the links do.
#include <algorithm>

#include "costs/collective.hpp"
#include "costs/collective_curve.hpp"
#include "costs/collective_links.hpp"

namespace lockstep {
namespace {

constexpr double copy_engine_latency = 8e-6;  // submit, start and signal a copy

// Replaces the time of `cost` by a measured curve of messages between two CPU ranks on `nodes`
// hosts, if there is one, and adds the CPU time of either process.
CopyCost between_processes(const Machine& machine, int nodes, double bytes, CopyCost cost) {
  if (machine.device.architecture != Architecture::cpu || bytes <= 0) return cost;
  const CollectiveCurve* curve = find_curve(machine, "send_recv", 2, nodes);
  if (curve != nullptr) {
    const CurveValue value = curve_seconds(*curve, bytes);
    // At most half of the measured time is latency, so that some time remains for the bytes.
    cost.latency_seconds = std::min(cost.latency_seconds, 0.5 * value.seconds);
    cost.bytes_per_second = bytes / (value.seconds - cost.latency_seconds);
    cost.provenance = value.on_point ? Provenance::measured : Provenance::interpolated;
    cost.cores = value.cores;
    cost.one_core_slowdown = value.one_core_slowdown;
    cost.buffered_bytes = buffered_bytes(*curve, bytes);
  }
  if (cost.cores <= 0) cost.cores = cores_of_sending(machine.host, bytes, cost.seconds(bytes));
  return cost;
}

}  // namespace

CopyCost host_device_copy(const Machine& machine, double bytes) {
  const double link = pcie_bytes_per_second(machine.pcie);
  CopyCost cost{copy_engine_latency, link, {}};
  cost.links.push_back({LinkClass::pcie, bytes, bytes, 1, link});
  if (machine.host.memory_bandwidth > 0)
    cost.links.push_back({LinkClass::host_memory, bytes, bytes, 1, machine.host.memory_bandwidth});
  return cost;
}

CopyCost device_device_copy(const Machine& machine, double bytes) {
  const CommGroup pair{.ranks_per_node = 2, .nodes = 1};
  const CollectiveCost cost = collective_cost(machine, pair, Collective::send_recv, bytes);
  const double rate = bytes > 0 ? bytes / cost.transfer_seconds : 0;
  return {cost.latency_seconds, rate, cost.links};
}

CopyCost loopback_copy(const Machine& machine, double bytes) {
  CopyCost cost;
  cost.latency_seconds = machine.host.message_seconds;
  cost.bytes_per_second = machine.host.loopback_bytes_per_second;
  if (machine.host.memory_bandwidth > 0)
    cost.links.push_back(
        {LinkClass::host_memory, 2 * bytes, 2 * bytes, 1, machine.host.memory_bandwidth});
  return between_processes(machine, 1, bytes, std::move(cost));
}

CopyCost host_host_copy(const Machine& machine, double bytes) {
  if (machine.fabric.kind == FabricKind::none) return loopback_copy(machine, bytes);
  CopyCost cost;
  cost.latency_seconds = machine.fabric.latency_seconds;
  cost.bytes_per_second = connection_rate(machine);
  cost.links.push_back({LinkClass::nic, bytes, bytes, 1, nic_payload_rate(machine)});
  return between_processes(machine, 2, bytes, std::move(cost));
}

}  // namespace lockstep
