// A job for parameter servers with simple costs: ten layers of five million parameters and 30 ms of
// compute, on GPUs with their own PCIe links of 24 GB/s and hosts with much memory bandwidth. Used
// by tests of whole jobs; ps_fixture.hpp has smaller systems.
#pragma once

#include <memory>
#include <string>

#include "costs/optimizer.hpp"
#include "edit_step.hpp"
#include "strategies/parameter_server/parameter_server.hpp"

namespace lockstep::testing {

// Every layer takes 1 ms forward and 2 ms backward on the device, and a tenth of that on the host.
class FixedCosts final : public ComputeCosts {
 public:
  LayerCost layer(const TrainingStep&, std::size_t) const override {
    LayerCost cost;
    cost.forward = {0.1e-3, 1e-3, 1.1e-3};
    cost.backward = {0.2e-3, 2e-3, 2.2e-3};
    return cost;
  }
  QueuedWork optimizer(const OptimizerSpec&, Precision, double elements, int) const override {
    return {0, elements * 12 / 1e12, elements * 12 / 1e12};
  }
  QueuedWork stream(double bytes, int) const override { return {0, bytes / 1e12, bytes / 1e12}; }
};

inline Machine toy_machine(int gpus_per_node, int nodes) {
  Machine machine;
  machine.gpus_per_node = gpus_per_node;
  machine.max_nodes = nodes;
  machine.intra = IntraLink::nvlink;
  machine.nvlink = {12, 25e9, NvlinkLayout::switched, false};
  machine.device.architecture = Architecture::ampere;
  machine.device.memory_bytes = 80e9;
  machine.device.multiprocessors = 108;
  machine.pcie.generation = 4;  // 24 GB/s
  machine.host.memory_bandwidth = 200e9;
  machine.fabric.kind = FabricKind::infiniband;
  machine.fabric.nic_bytes_per_second = 10e9;
  machine.fabric.efficiency = 1;
  machine.fabric.latency_seconds = 2e-6;
  return machine;
}

inline Job toy_job(int gpus, int gpus_per_node = 8, int nodes = 64) {
  Job job;
  job.machine = toy_machine(gpus_per_node, nodes);
  job.mesh.data = gpus;
  job.costs = std::make_shared<FixedCosts>();
  edit_step(job).samples = 32;
  for (int i = 0; i < 10; ++i) {
    Layer layer;
    layer.name = "layer" + std::to_string(i);
    Parameter weight;
    weight.name = "weight";
    weight.count = 5'000'000;
    weight.shape = {weight.count};
    layer.parameters.push_back(weight);
    layer.inputs = {i - 1};
    layer.output_storage = i;
    edit_step(job).layers.push_back(layer);
    edit_step(job).parameter_count += weight.count;
  }
  job.simulation.steps = 20;
  job.simulation.engine = Engine::loop;  // SimGrid needs a process for each job
  return job;
}

inline double mean_of(const StrategyResult& result) {
  double sum = 0;
  for (const double step : result.step_seconds) sum += step;
  return sum / static_cast<double>(result.step_seconds.size());
}

inline double busy_of(const StrategyResult& result, const std::string& link) {
  for (const LinkTraffic& traffic : result.traffic) {
    if (traffic.link_class == link) return traffic.bytes;
  }
  return 0;
}

inline constexpr double kModelBytes = 50e6 * 4;

}  // namespace lockstep::testing
