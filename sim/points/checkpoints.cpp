// Computes checkpoint costs from the rates of the machine's links. The speed of training beside a
// checkpoint comes from a simulation of the same job with additional traffic. docs/faults.md has
// the formulas and their sources.
#include "points/checkpoints.hpp"

#include <algorithm>
#include <cmath>

#include "core/statistics.hpp"
#include "costs/collective.hpp"
#include "costs/collective_links.hpp"
#include "costs/optimizer.hpp"

namespace lockstep {

namespace {

// Bytes of the complete state: parameters as the model holds them, the optimizer's state, and
// buffers such as the running means of BatchNorm.
double state_bytes(const Point& point) {
  const double each = parameter_bytes(point.precision) +
                      optimizer_state_bytes(point.job.optimizer, point.precision);
  double bytes = static_cast<double>(point.parameters) * each;
  for (const Layer& layer : point.job.step->layers) bytes += layer.buffer_bytes;
  return bytes;
}

// Payload bytes per second of all NICs of a node together, in one direction.
double network_rate(const Machine& machine) {
  return nic_payload_rate(machine) * machine.fabric.nics_per_node;
}

// Seconds to copy a host's share between its devices and its memory. Every device copies its part
// over its own link; all devices of a host share the bandwidth of its memory. If CPUs update the
// state, it already lies in host memory: the copy reads it once and writes it once there.
double copy_seconds(const Point& point, double host_bytes) {
  const Job& job = point.job;
  const double memory_bandwidth = job.machine.host.memory_bandwidth;
  const auto through_memory = [&](double bytes) {
    return memory_bandwidth > 0 ? bytes / memory_bandwidth : 0;
  };
  if (point.strategy->updater(job) != Updater::device ||
      job.machine.device.architecture == Architecture::cpu) {
    return through_memory(2 * host_bytes);
  }
  const int ranks = std::min(point.strategy->state_ranks(job), job.machine.gpus_per_node);
  const CopyCost copy = host_device_copy(job.machine, host_bytes / ranks);
  return copy.latency_seconds +
         std::max(host_bytes / ranks / copy.bytes_per_second, through_memory(host_bytes));
}

}  // namespace

CheckpointCosts checkpoint_costs(const Checkpoints& checkpoints, const Point& point) {
  const Strategy& strategy = *point.strategy;
  CheckpointCosts costs;
  costs.bytes = checkpoints.bytes.value_or(state_bytes(point));
  costs.host_bytes = costs.bytes / (strategy.state_nodes(point.job) + strategy.server_hosts());
  costs.write_seconds = costs.host_bytes / checkpoints.bytes_per_second;
  costs.copy_seconds = copy_seconds(point, costs.host_bytes);
  const double rate = network_rate(point.job.machine);
  if (rate > 0) costs.fetch_seconds = costs.host_bytes / rate;
  return costs;
}

double share_of_speed(const Point& point, Job job, const StrategyResult& of_all) {
  const auto speed = [](const StrategyResult& result) {
    return result.samples_per_step / mean(result.step_seconds);
  };
  // A process may hold one SimGrid world only, and the point's own simulation may have used it.
  job.simulation.engine = Engine::loop;
  return speed(point.strategy->simulate(job)) / speed(of_all);
}

double speed_while_writing(const Checkpoints& checkpoints, const Point& point,
                           const StrategyResult& of_all) {
  const Strategy& strategy = *point.strategy;
  Job job = point.job;
  const int nodes = nodes_of(job.mesh.gpus(), job.machine);
  // A single node has no other traffic on its NICs.
  if (nodes + strategy.server_hosts() == 1) return 1;
  // The writes are simulated as a neighbour, that is, another job that always sends, on all nodes
  // that hold state. Hosts of servers are numbered after the workers' nodes.
  Neighbour write;
  write.share = std::min(0.99, checkpoints.bytes_per_second / network_rate(job.machine));
  for (int node = 0; node < strategy.state_nodes(job); ++node) write.nodes.push_back(node);
  for (int host = 0; host < strategy.server_hosts(); ++host) write.nodes.push_back(nodes + host);
  job.stragglers.neighbours.push_back(write);
  return std::min(1.0, share_of_speed(point, job, of_all));
}

MemoryCopies memory_copies(const PeerCopies& peers, const CheckpointCosts& costs,
                           const StrategyResult& of_all, double steps_per_second) {
  // Share of the time for which training has the NICs busy.
  double busy = 0;
  for (const LinkTraffic& traffic : of_all.traffic) {
    if (traffic.link_class == "NIC") busy = traffic.busy;
  }
  // The lowest idle share that a copy can count on, even in a network that is always busy.
  constexpr double least_idle = 0.01;
  const double sending = (peers.copies - 1) * costs.fetch_seconds / std::max(least_idle, 1 - busy);
  MemoryCopies copies;
  copies.copies = peers.copies;
  copies.seconds = std::max(sending, costs.copy_seconds);
  copies.load_seconds = costs.copy_seconds;
  copies.fetch_seconds = costs.fetch_seconds;
  const double period = std::max(peers.every_seconds.value_or(0), copies.seconds);
  copies.steps_between = std::max(1.0, std::ceil(period * steps_per_second));
  return copies;
}

void add_checkpoint_memory(const Scenario& scenario, const Point& point, MemoryUse& use) {
  if (!scenario.checkpoints) return;
  const Checkpoints& checkpoints = *scenario.checkpoints;
  // A staged write first copies the host's own share and reads from that copy. With peers, a host
  // holds two copies of each share of its group: the last complete one and the one being received.
  const double shares = (checkpoints.write == CheckpointWrite::staged ? 1 : 0) +
                        (checkpoints.peers ? 2 * checkpoints.peers->copies : 0);
  if (shares == 0) return;
  use.host += shares * checkpoint_costs(checkpoints, point).host_bytes;
  use.host_capacity = point.job.machine.host.memory_bytes;
}

}  // namespace lockstep
