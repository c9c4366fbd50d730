// See bottleneck.hpp. Looks at the largest part of the step that is not the model's own arithmetic.
#include "points/bottleneck.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "costs/nccl_topology.hpp"
#include "results/cells.hpp"
#include "results/step_parts.hpp"

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

// Would twice the batch fit? What grows with it is counted twice.
bool has_room(const Prediction& p) {
  double growing = 0;
  for (const char* kind : {"activations", "activation gradients", "inputs"}) {
    const auto found = p.memory.at_peak.find(kind);
    if (found != p.memory.at_peak.end()) growing += found->second;
  }
  MemoryUse doubled = p.memory;
  doubled.device += growing;
  return fits(doubled);
}

// "a, b or c would help"
std::string would_help(const std::vector<std::string>& what) {
  std::string text;
  for (std::size_t i = 0; i < what.size(); ++i) {
    if (i > 0) text += i + 1 < what.size() ? ", " : " or ";
    text += what[i];
  }
  return text + " would help";
}

std::string help_for_arithmetic(const Point& point) {
  const Device& device = point.job.machine.device;
  const char* faster = device.architecture == Architecture::cpu ? "a faster CPU" : "a faster GPU";
  const double now = peak_flops(device, math_mode(point.precision));
  const double most =
      std::max({peak_flops(device, MathMode::tf32), peak_flops(device, MathMode::fp16),
                peak_flops(device, MathMode::bf16)});
  if (most <= now) return would_help({faster});
  return would_help({faster, "a lower precision"});
}

std::string help_for_memory(const Scenario& scenario, const Point& point) {
  const bool convolves =
      std::any_of(point.step->layers.begin(), point.step->layers.end(), [](const Layer& layer) {
        return std::any_of(layer.forward.begin(), layer.forward.end(), [](const Kernel& kernel) {
          return kernel.kind == KernelKind::convolution;
        });
      });
  const bool can_reorder = convolves && scenario.memory_format == MemoryFormat::contiguous &&
                           math_mode(point.precision) != MathMode::fp32;
  if (can_reorder) return would_help({"more memory bandwidth", "channels_last", "fused kernels"});
  return would_help({"more memory bandwidth", "fused kernels"});
}

}  // namespace

std::string bottleneck_sentence(const Scenario& scenario, const Prediction& p, const Point& point) {
  const StepSplit& s = p.split;
  const double step = total_seconds(s);
  if (step <= 0) return "nothing to do";
  if (!fits_host(p.memory)) {
    const std::string device =
        fits_device(p.memory) ? "" : fmt::format(", and the device's peak is {}", p.memory.moment);
    return fmt::format(
        "does not fit: what cpu_offload keeps on the host (shards, gradients, optimizer state) "
        "takes {} of its {}{}",
        bytes_text(p.memory.host), bytes_text(p.memory.host_capacity), device);
  }
  if (p.out_of_memory) {
    return fmt::format("does not fit: the peak is {}", p.memory.moment);
  }
  const double compute = s.forward + s.backward;
  struct Cause {
    double seconds;
    std::string text;
  };
  const auto share = [&](double seconds) { return fmt::format("{:.0f} %", 100 * seconds / step); };
  std::vector<std::string> for_links{"a faster link"}, for_host;
  if (has_room(p)) {
    for_links.push_back("a larger batch per GPU");
    for_host.push_back("a larger batch per GPU");
  }
  for_links.push_back("gradient accumulation");
  for_host.insert(for_host.end(), {"CUDA graphs", "torch.compile"});
  std::vector<std::string> for_offload{"keeping the shards on the GPUs (cpu_offload: false)"},
      for_update;
  const OptimizerSpec& optimizer = scenario.optimizer;
  const bool fused = optimizer.implementation == OptimizerImplementation::fused;
  if (!fused && !is_one_pass(optimizer) && optimizer.name != OptimizerKind::muon) {
    for_offload.push_back("a fused optimizer");
    for_update.push_back("a fused optimizer");
  }
  for_offload.push_back("more nodes");
  for_update.push_back("a larger batch");
  const bool loader = point.job.data_loading_seconds > 0;
  Cause causes[] = {
      {s.data_loading,
       loader ? fmt::format("the data loader delivers too slowly ({} of the step): more loader "
                            "workers or cheaper preprocessing would help",
                            share(s.data_loading))
              : fmt::format("copying the batches to the device takes {} of the step: preparing "
                            "them there, or copying one batch ahead, would help",
                            share(s.data_loading))},
      {s.exposed_communication,
       fmt::format("communication over {} is exposed for {} of the step: {}",
                   limiting_link(p, point.job.machine), share(s.exposed_communication),
                   would_help(for_links))},
      {s.host_bound, fmt::format("the host cannot issue work fast enough ({} of the step): {}",
                                 share(s.host_bound), would_help(for_host))},
      {s.waiting, fmt::format("ranks wait for each other or for the server for {} of the step",
                              share(s.waiting))},
      {s.optimizer + s.copies,
       point.strategy->updater(point.job) == Updater::own_host
           ? fmt::format("the CPU optimizer of cpu_offload takes {} of the step while the GPU "
                         "waits: {}",
                         share(s.optimizer), would_help(for_offload))
           : fmt::format("the optimizer and gradient copies take {} of the step: {}",
                         share(s.optimizer + s.copies), would_help(for_update))},
  };
  const Cause& worst =
      *std::max_element(std::begin(causes), std::end(causes),
                        [](const Cause& a, const Cause& b) { return a.seconds < b.seconds; });
  // Arithmetic dominates unless something else takes at least a fifth of the step.
  if (worst.seconds >= 0.2 * step || worst.seconds > compute) return worst.text;
  const double memory_share =
      compute > 0 ? std::min(1.0, point.memory_bound_seconds / compute) : 0.0;
  const std::string help =
      memory_share > 0.5 ? help_for_memory(scenario, point) : help_for_arithmetic(point);
  return fmt::format(
      "compute: {} of the step is forward and backward work, {:.0f} % of it bound by "
      "memory bandwidth; {}",
      share(compute), 100 * memory_share, help);
}

}  // namespace lockstep
