#include "points/other_devices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "costs/roofline_costs.hpp"
#include "hardware/device.hpp"

namespace lockstep {

namespace {

Machine with_device(const Machine& machine, const Device& device) {
  Machine other = machine;
  other.device = device;
  return other;
}

// What `answers` says, and how much longer each piece takes on other devices, by the model of both.
class MixedCosts final : public ComputeCosts {
 public:
  MixedCosts(std::shared_ptr<const ComputeCosts> answers, const Machine& machine,
             const std::vector<std::string>& devices, const Inputs& inputs,
             const Framework& framework)
      : answers_(std::move(answers)), here_(machine, framework) {
    for (const std::string& device : devices) {
      there_.emplace_back(with_device(machine, *inputs.devices.at(device)), framework);
    }
  }

  LayerCost layer(const TrainingStep& step, std::size_t index) const override {
    LayerCost cost = answers_->layer(step, index);
    const LayerCost here = here_.layer(step, index);
    for (std::size_t i = 0; i < there_.size(); ++i) {
      const LayerCost there = there_[i].layer(step, index);
      add(cost.forward, i, here.forward, there.forward);
      add(cost.backward, i, here.backward, there.backward);
    }
    return cost;
  }
  QueuedWork optimizer(const OptimizerSpec& optimizer, Precision precision, double elements,
                       int tensors) const override {
    return everywhere([&](const ComputeCosts& costs) {
      return costs.optimizer(optimizer, precision, elements, tensors);
    });
  }
  QueuedWork stream(double bytes, int launches) const override {
    return everywhere([&](const ComputeCosts& costs) { return costs.stream(bytes, launches); });
  }
  FrameworkKind framework() const override { return answers_->framework(); }

 private:
  static void add(QueuedWork& work, std::size_t device, const QueuedWork& here,
                  const QueuedWork& there) {
    if (here.busy > 0) work.elsewhere[device] = work.busy * (there.busy / here.busy - 1);
  }
  template <class Ask>
  QueuedWork everywhere(const Ask& ask) const {
    QueuedWork work = ask(*answers_);
    const QueuedWork here = ask(here_);
    for (std::size_t i = 0; i < there_.size(); ++i) add(work, i, here, ask(there_[i]));
    return work;
  }

  std::shared_ptr<const ComputeCosts> answers_;
  RooflineCosts here_;
  std::vector<RooflineCosts> there_;
};

// Files in the order in which they are first named.
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

void check_other_devices(const Scenario& scenario, const Machine& machine, Misfits& misfits) {
  std::set<int> nodes, ranks;
  std::set<std::string> kinds;
  for (const OtherDevice& other : scenario.stragglers.other_devices) {
    if (kinds.insert(other.device).second && kinds.size() == most_other_devices + 1) {
      misfits.add(other.where, "stragglers.other_devices", "too many kinds of devices in one job",
                  fmt::format("{} besides the platform's", most_other_devices));
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
    if (rank < job.gpus) ranks.push_back(rank);
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
  job.costs =
      std::make_shared<MixedCosts>(job.costs, job.machine, kinds, inputs, scenario.framework);
  job.device_of_rank.assign(static_cast<std::size_t>(job.gpus), 0);
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
