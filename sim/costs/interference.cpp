// Shares multiprocessors, memory bandwidth and cores between compute and communication that
// overlap. Work slows down in inverse proportion to the share of the resource that limits it.
#include "costs/interference.hpp"

#include <algorithm>
#include <cassert>

namespace lockstep {

double slowdown(const Device& device, double compute_bound, double memory_bound, int channels,
                double hbm_bytes_per_second) {
  assert(compute_bound >= 0 && memory_bound >= 0 && compute_bound + memory_bound <= 1 + 1e-9);
  // Compute always retains at least a quarter of each resource, because block scheduler and memory
  // controller share fairly (the worst published case is a doubling; fact 112).
  constexpr double least = 0.25;
  double compute = 1, memory = 1;
  if (device.multiprocessors > 0)
    compute = 1 / std::max(least,
                           1 - static_cast<double>(std::max(channels, 0)) / device.multiprocessors);
  const double bandwidth = device.memory_bandwidth * device.efficiency.memory;
  if (bandwidth > 0)
    memory = 1 / std::max(least, 1 - std::max(hbm_bytes_per_second, 0.0) / bandwidth);
  return compute_bound * compute + memory_bound * memory + (1 - compute_bound - memory_bound);
}

double cores_per_rank(const Machine& machine, int ranks) {
  return static_cast<double>(machine.host.cores) /
         std::max(1, std::min(ranks, machine.gpus_per_node));
}

CoreSpeeds share_cores(double cores, double demand) {
  assert(demand >= 0);
  cores = std::max(cores, 1.0);
  CoreSpeeds speeds;
  speeds.compute = std::min(1.0, std::max(cores - demand, cores / 2));
  if (demand > 0) speeds.communication = std::min(1.0, (cores - speeds.compute) / demand);
  return speeds;
}

}  // namespace lockstep
