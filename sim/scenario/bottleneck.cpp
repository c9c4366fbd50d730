// See bottleneck.hpp. Looks at the largest part of the step that is not the model's own arithmetic.
#include "scenario/bottleneck.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "costs/nccl_topology.hpp"

namespace lockstep {

namespace {

// Line rate of one link of a class, one way; 0 for classes a machine's file says nothing about.
double line_rate(const Machine& machine, const std::string& link_class) {
  if (link_class == "NIC") return machine.fabric.nic_bytes_per_second;
  if (link_class == "NVLink") {
    return machine.nvlink.links_per_gpu * machine.nvlink.bytes_per_second;
  }
  if (link_class == "PCIe") return pcie_bytes_per_second(machine.pcie);
  if (link_class == "host memory") return machine.host.memory_bandwidth;
  return 0;
}

// A collective keeps all its links busy for the same time; the narrow one is where the bytes come
// closest to what the link can carry.
std::string limiting_link(const Prediction& p, const Machine& machine) {
  const LinkTraffic* narrowest = nullptr;
  double highest = 0;
  for (const auto& traffic : p.traffic) {
    const double rate = line_rate(machine, traffic.link_class);
    if (rate > 0 && traffic.bytes / rate > highest) {
      highest = traffic.bytes / rate;
      narrowest = &traffic;
    }
  }
  return narrowest == nullptr ? "the network" : narrowest->link_class;
}

}  // namespace

std::string bottleneck_sentence(const Prediction& p, const Point& point) {
  const StepSplit& s = p.split;
  const double step = s.data_loading + s.forward + s.backward + s.optimizer + s.copies +
                      s.exposed_communication + s.host_bound + s.waiting;
  if (step <= 0) return "nothing to do";
  if (p.out_of_memory) {
    return fmt::format("does not fit: the peak is {}", p.memory.moment);
  }
  const double compute = s.forward + s.backward;
  struct Cause {
    double seconds;
    std::string text;
  };
  const auto share = [&](double seconds) { return fmt::format("{:.0f} %", 100 * seconds / step); };
  Cause causes[] = {
      {s.data_loading, fmt::format("the data loader delivers too slowly ({} of the step): more "
                                   "loader workers or cheaper preprocessing would help",
                                   share(s.data_loading))},
      {s.exposed_communication,
       fmt::format("communication over {} is exposed for {} of the step: a faster link, a larger "
                   "batch per GPU or gradient accumulation would help",
                   limiting_link(p, point.job.machine), share(s.exposed_communication))},
      {s.host_bound,
       fmt::format("the host cannot issue work fast enough ({} of the step): a larger "
                   "batch per GPU, CUDA graphs or torch.compile would help",
                   share(s.host_bound))},
      {s.waiting, fmt::format("ranks wait for each other or for the server for {} of the step",
                              share(s.waiting))},
      {s.optimizer + s.copies,
       fmt::format("the optimizer and gradient copies take {} of the step: a fused optimizer or a "
                   "larger batch would help",
                   share(s.optimizer + s.copies))},
  };
  const Cause& worst =
      *std::max_element(std::begin(causes), std::end(causes),
                        [](const Cause& a, const Cause& b) { return a.seconds < b.seconds; });
  // Arithmetic dominates unless something else takes at least a fifth of the step.
  if (worst.seconds >= 0.2 * step || worst.seconds > compute) return worst.text;
  const double memory_share =
      compute > 0 ? std::min(1.0, point.memory_bound_seconds / compute) : 0.0;
  const char* help = memory_share > 0.5
                         ? "more memory bandwidth, channels_last or fused kernels would help"
                         : "a faster GPU or a lower precision would help";
  return fmt::format(
      "compute: {} of the step is forward and backward work, {:.0f} % of it bound by "
      "memory bandwidth; {}",
      share(compute), 100 * memory_share, help);
}

}  // namespace lockstep
