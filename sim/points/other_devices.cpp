// Computes the cost of work on other devices and checks which ranks have them. A profile measures
// only one device. On another device each layer's forward and backward are scaled separately, by
// the ratio of the two roofline models.
#include "points/other_devices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "costs/roofline_costs.hpp"
#include "costs/transformed_costs.hpp"
#include "hardware/device.hpp"
#include "memory/step_memory.hpp"

namespace lockstep {

namespace {

Machine with_device(const Machine& machine, const Device& device) {
  Machine other = machine;
  other.device = device;
  return other;
}

// Costs whose QueuedWork::elsewhere holds the extra seconds on each of `devices`:
//
//     elsewhere[i] = busy * (model of device i / model of the job's own device - 1)
std::shared_ptr<const ComputeCosts> mixed_costs(const Job& job,
                                                const std::shared_ptr<const ComputeCosts>& costs,
                                                const std::vector<std::string>& devices,
                                                const Inputs& inputs, const Framework& framework) {
  TransformedCosts::Sources sources{costs, std::make_shared<RooflineCosts>(job.machine, framework)};
  for (const std::string& device : devices) {
    sources.push_back(std::make_shared<RooflineCosts>(
        with_device(job.machine, *inputs.devices.at(device)), framework));
  }
  TransformedCosts::Rule rule;
  rule.work = [](const std::vector<QueuedWork>& answers) {
    QueuedWork work = answers[0];
    const QueuedWork& here = answers[1];
    for (std::size_t i = 2; i < answers.size() && here.busy > 0; ++i) {
      work.elsewhere[i - 2] = work.busy * (answers[i].busy / here.busy - 1);
    }
    return work;
  };
  rule.seconds = [](const std::vector<double>& seconds) { return seconds.front(); };
  return std::make_shared<TransformedCosts>(std::move(sources), std::move(rule));
}

// The distinct device files, in the order in which they are first named.
std::vector<std::string> kinds_of(const std::vector<OtherDevice>& others) {
  std::vector<std::string> kinds;
  for (const OtherDevice& other : others) {
    if (std::find(kinds.begin(), kinds.end(), other.device) == kinds.end()) {
      kinds.push_back(other.device);
    }
  }
  return kinds;
}

}  // namespace

void check_other_devices(const Scenario& scenario, const Inputs& inputs, Misfits& misfits) {
  const Machine& machine = *inputs.machine;
  std::set<int> nodes, ranks;
  std::set<std::string> kinds;
  for (const OtherDevice& other : scenario.stragglers.other_devices) {
    if (kinds.insert(other.device).second && kinds.size() == most_other_devices + 1) {
      misfits.add(other.where, "stragglers.other_devices", "too many kinds of devices in one job",
                  fmt::format("{} besides the platform's", most_other_devices));
    }
    if (is_host(*inputs.devices.at(other.device)) != is_host(machine.device)) {
      misfits.add(other.where, "stragglers.other_devices.device",
                  "GPUs and CPUs are not in one job");
    }
    for (const int node : other.nodes) {
      if (!nodes.insert(node).second) {
        misfits.add(other.where, "stragglers.other_devices.nodes",
                    fmt::format("names node {} twice", node));
      }
    }
    for (const int rank : other.ranks) {
      if (!ranks.insert(rank).second) {
        misfits.add(other.where, "stragglers.other_devices.ranks",
                    fmt::format("names rank {} twice", rank));
      }
    }
  }
  for (const OtherDevice& other : scenario.stragglers.other_devices) {
    for (const int rank : other.ranks) {
      const int node = rank / machine.gpus_per_node;
      if (nodes.count(node) == 0) continue;
      misfits.add(other.where, "stragglers.other_devices.ranks",
                  fmt::format("rank {} is in node {}, which is named, too", rank, node));
    }
  }
}

std::vector<int> ranks_with(const OtherDevice& other, const Job& job) {
  std::vector<int> ranks;
  const auto add = [&](int rank) {
    if (rank < job.mesh.gpus()) ranks.push_back(rank);
  };
  for (const int rank : other.ranks) add(rank);
  const int per_node = job.machine.gpus_per_node;
  for (const int node : other.nodes) {
    for (int on_node = 0; on_node < per_node; ++on_node) add(node * per_node + on_node);
  }
  return ranks;
}

void use_other_devices(const Scenario& scenario, const Inputs& inputs, Job& job) {
  const std::vector<OtherDevice>& others = job.stragglers.other_devices;
  if (others.empty()) return;
  const std::vector<std::string> kinds = kinds_of(others);
  job.costs = mixed_costs(job, job.costs, kinds, inputs, scenario.framework);
  for (PricedStep& slice : job.slices) {
    slice.costs = mixed_costs(job, slice.costs, kinds, inputs, scenario.framework);
  }
  job.device_of_rank.assign(static_cast<std::size_t>(job.mesh.gpus()), 0);
  for (const OtherDevice& other : others) {
    const auto kind = std::find(kinds.begin(), kinds.end(), other.device) - kinds.begin();
    const std::vector<int> ranks = ranks_with(other, job);
    for (const int rank : ranks) {
      job.device_of_rank[static_cast<std::size_t>(rank)] = static_cast<int>(kind) + 1;
    }
    if (ranks.empty()) continue;
    job.machine.device.memory_bytes =
        std::min(job.machine.device.memory_bytes, inputs.devices.at(other.device)->memory_bytes);
  }
}

}  // namespace lockstep
