// Finds the bottleneck of a step. The largest part besides forward and backward is the bottleneck
// if it takes at least a fifth of the step, or more time than forward and backward; otherwise
// compute is the bottleneck. A job that does not fit into memory is limited by memory.
#include "points/bottleneck.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "costs/nccl_topology.hpp"
#include "results/cells.hpp"
#include "results/step_parts.hpp"

namespace lockstep {

namespace {

// Line rate of one link of a class, in bytes per second and per direction; 0 if the machine's file
// does not give the rate.
double line_rate(const Machine& machine, const std::string& link_class) {
  if (link_class == "NIC") return machine.fabric.nic_bytes_per_second;
  if (link_class == "NVLink") {
    return machine.nvlink.links_per_gpu * machine.nvlink.bytes_per_second;
  }
  if (link_class == "PCIe") return pcie_bytes_per_second(machine.pcie);
  if (link_class == "host memory") return machine.host.memory_bandwidth;
  return 0;
}

// The class of links that limits communication. A collective keeps all its links busy for the same
// time; the limit is the link that carries most bytes relative to its line rate.
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

Bottleneck bottleneck_of(const Prediction& p, const Point& point) {
  const StepSplit& s = p.split;
  const double step = total_seconds(s);
  if (step <= 0) return {Limit::nothing, "nothing to do"};
  if (!fits_node(p.memory)) {
    const std::string device =
        fits_device(p.memory) ? "" : fmt::format(", and the device's peak is {}", p.memory.moment);
    const bool host = !fits_host(p.memory);
    return {Limit::memory,
            fmt::format("does not fit: the offloaded state takes {} of the {} of {}{}",
                        bytes_text(host ? p.memory.host : p.memory.nvme),
                        bytes_text(host ? p.memory.host_capacity : p.memory.nvme_capacity),
                        host ? "the host's memory" : "the node's NVMe drives", device)};
  }
  if (p.out_of_memory) {
    return {Limit::memory, fmt::format("does not fit: the peak is {}", p.memory.moment)};
  }
  const double compute = s.forward + s.backward;
  // A candidate: its seconds of the step and the sentence that blames it.
  struct Cause {
    double seconds;
    Limit limit;
    std::string text;
  };
  const auto share = [&](double seconds) { return fmt::format("{:.0f} %", 100 * seconds / step); };
  const bool loader = point.job.data_loading_seconds > 0;
  const bool on_host = point.strategy->updater(point.job) == Updater::own_host;
  const Cause causes[] = {
      loader ? Cause{s.data_loading, Limit::loader,
                     fmt::format("the data loader delivers too slowly ({} of the step)",
                                 share(s.data_loading))}
             : Cause{s.data_loading, Limit::input_copy,
                     fmt::format("copying the batches to the device takes {} of the step",
                                 share(s.data_loading))},
      {s.exposed_communication, Limit::communication,
       fmt::format("communication over {} is exposed for {} of the step",
                   limiting_link(p, point.job.machine), share(s.exposed_communication))},
      {s.host_bound, Limit::host,
       fmt::format("the host cannot issue work fast enough ({} of the step)", share(s.host_bound))},
      {s.waiting, Limit::waiting,
       fmt::format("ranks wait for each other or for the server for {} of the step",
                   share(s.waiting))},
      {s.bubble, Limit::waiting,
       fmt::format("stages of the pipeline wait for each other for {} of the step: more "
                   "micro-batches, or more chunks a stage",
                   share(s.bubble))},
      on_host ? Cause{s.optimizer + s.copies, Limit::host_update,
                      fmt::format("the optimizer on the CPU and its copies take {} of the step "
                                  "while the GPU waits",
                                  share(s.optimizer + s.copies))}
              : Cause{s.optimizer + s.copies, Limit::update,
                      fmt::format("the optimizer and gradient copies take {} of the step",
                                  share(s.optimizer + s.copies))},
  };
  const Cause& worst =
      *std::max_element(std::begin(causes), std::end(causes),
                        [](const Cause& a, const Cause& b) { return a.seconds < b.seconds; });
  // Compute is the limit unless another part takes a fifth of the step, or more time than compute.
  if (worst.seconds >= 0.2 * step || worst.seconds > compute) return {worst.limit, worst.text};
  const double memory_share =
      compute > 0 ? std::min(1.0, point.memory_bound_seconds / compute) : 0.0;
  return {Limit::compute,
          fmt::format("compute: {} of the step is forward and backward work, {:.0f} % of it bound "
                      "by memory bandwidth",
                      share(compute), 100 * memory_share)};
}

}  // namespace lockstep
