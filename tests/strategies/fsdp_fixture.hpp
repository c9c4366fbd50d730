// A model of equal blocks on a machine with simple links. Used by tests of FSDP that compute
// expected times by hand.
#pragma once

#include <string>

#include "edit_step.hpp"
#include "strategies/common/step_parts.hpp"
#include "strategies/fsdp/fsdp.hpp"
#include "tests/engine/in_child.hpp"

namespace lockstep::testing {

// Costs in which every layer takes the same time, and a streaming kernel `stream_seconds`. `host`
// is the host's time of a dispatch. A layer is one dispatch in each pass and takes the host
// `layer_host` more.
class EqualCosts final : public ComputeCosts {
 public:
  double forward = 0.010, backward = 0.020, update = 0.003, stream_seconds = 0, host = 0;
  double layer_host = 0;

  LayerCost layer(const TrainingStep&, std::size_t) const override {
    LayerCost cost;
    cost.forward = work(forward, layer_host);
    cost.backward = work(backward, layer_host);
    cost.arithmetic = forward + backward;
    return cost;
  }
  QueuedWork optimizer(const OptimizerSpec&, Precision, double, int) const override {
    return work(update);
  }
  QueuedWork stream(double, int launches) const override {
    return {host * launches, stream_seconds, host * launches + stream_seconds};
  }

 private:
  QueuedWork work(double seconds, double more = 0) const {
    return {host + more, seconds, host + more + seconds};
  }
};

struct Toy {
  int units = 4;
  double elements = 25e6;  // of a unit
  int gpus = 8;
  EqualCosts costs;
  FsdpOptions options;
  double outside = 0;  // elements of an embedding outside the blocks
};

inline Machine toy_machine() {
  Machine machine;
  machine.gpus_per_node = 8;
  machine.max_nodes = 64;
  machine.intra = IntraLink::nvlink;
  machine.nvlink = {12, 25e9, NvlinkLayout::switched, false};
  machine.device.architecture = Architecture::ampere;
  machine.device.memory_bytes = 80e9;
  machine.device.multiprocessors = 108;
  machine.device.memory_bandwidth = 2e12;
  machine.pcie.generation = 4;
  machine.host.memory_bandwidth = 200e9;
  machine.fabric.kind = FabricKind::infiniband;
  machine.fabric.nics_per_node = 8;
  machine.fabric.nic_bytes_per_second = 25e9;
  machine.fabric.latency_seconds = 2e-6;
  return machine;
}

inline Job toy_job(const Toy& toy) {
  Job job;
  job.machine = toy_machine();
  job.mesh.data = toy.gpus;
  job.costs = std::make_shared<EqualCosts>(toy.costs);
  job.simulation.interference = false;
  job.simulation.network = NetworkKind::analytic;
  job.simulation.steps = 12;
  edit_step(job).samples = 4;
  const auto add = [&](const std::string& name, const std::string& block, double elements) {
    Layer layer;
    layer.name = name;
    layer.block = block;
    Parameter weight;
    weight.name = name + ".weight";
    weight.count = static_cast<std::int64_t>(elements);
    weight.shape = {weight.count};
    layer.parameters.push_back(weight);
    const int index = static_cast<int>(job.step->layers.size());
    layer.inputs = {index - 1};
    layer.output_storage = index;
    edit_step(job).parameter_count += weight.count;
    edit_step(job).layers.push_back(layer);
  };
  if (toy.outside > 0) add("embedding", "", toy.outside);
  for (int i = 0; i < toy.units; ++i) {
    const std::string block = "h." + std::to_string(i);
    add(block + ".linear", block, toy.elements);
  }
  return job;
}

// The figures of a run. The run takes place in a child process, because a process holds one World.
struct Outcome {
  double step = 0, first = 0, exposed = 0, host_bound = 0, waiting = 0, copies = 0, busy = 0;
  double sum = 0;        // of all parts of the split
  double traffic = 0;    // bytes over all links of the job's first link class, per step
  double link_busy = 0;  // seconds of the busiest link per step, largest of the classes
  double simulated = 0;
};

inline Outcome run(const Job& job, const FsdpOptions& options) {
  const auto n = in_child([&] {
    const StrategyResult r = Fsdp(options).simulate(job);
    double seconds = 0, busy = 0;
    for (const double s : r.step_seconds) seconds += s / static_cast<double>(r.step_seconds.size());
    for (const LinkTraffic& t : r.traffic) busy = std::max(busy, t.busy * seconds);
    const StepSplit& p = r.split;
    return std::vector<double>{
        seconds,
        r.first_step_seconds,
        p.exposed_communication,
        p.host_bound,
        p.waiting,
        p.copies,
        r.device_busy,
        p.data_loading + p.forward + p.backward + p.optimizer + p.copies + p.exposed_communication +
            p.host_bound + p.waiting,
        r.traffic.empty() ? 0 : r.traffic.front().total_bytes,
        busy,
        static_cast<double>(r.step_seconds.size()),
    };
  });
  return {n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8], n[9], n[10]};
}

inline Outcome run(const Toy& toy) {
  return run(toy_job(toy), toy.options);
}

// Seconds of one collective of the toy, without other traffic.
inline double seconds_of(const Toy& toy, Collective kind, double bytes) {
  const Machine machine = toy_machine();
  return collective_cost(machine, group_of(machine, toy.gpus), kind, bytes).seconds();
}

}  // namespace lockstep::testing
