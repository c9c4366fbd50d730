// A small training job with prices that a test can add up by hand. Used by tests of all strategies.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>

#include "../engine/in_child.hpp"
#include "edit_step.hpp"
#include "strategies/strategy.hpp"
#include "strategies/table.hpp"

namespace lockstep::testing {

// Every layer takes the same time; streams and updates have a constant rate.
class ToyCosts : public ComputeCosts {
 public:
  QueuedWork forward{0, 1e-3, 1e-3};
  QueuedWork backward{0, 2e-3, 2e-3};
  double stream_bytes_per_second = 1e12;
  double optimizer_seconds = 1e-3;
  double speed = 1;  // of the device

  LayerCost layer(const TrainingStep&, std::size_t) const override {
    LayerCost cost;
    cost.forward = scaled(forward);
    cost.backward = scaled(backward);
    cost.memory_bound = 0.5 * (cost.forward.busy + cost.backward.busy);
    cost.arithmetic = cost.streaming = cost.memory_bound;
    return cost;
  }
  QueuedWork optimizer(const OptimizerSpec&, Precision, double, int) const override {
    return scaled({0, optimizer_seconds, optimizer_seconds});
  }
  QueuedWork stream(double bytes, int) const override {
    return scaled({0, bytes / stream_bytes_per_second, bytes / stream_bytes_per_second});
  }

 private:
  // Scales the device's time. The part of the span beyond the longer of host and device time stays.
  QueuedWork scaled(QueuedWork work) const {
    const double busy = work.busy / speed;
    const double ends = work.span - std::max(work.host, work.busy);
    return {work.host, busy, std::max(work.host, busy) + ends};
  }
};

inline Machine toy_machine() {
  Machine machine;
  machine.name = "toy";
  machine.device.architecture = Architecture::ampere;
  machine.device.multiprocessors = 108;
  machine.device.fp32_flops = 19.5e12;
  machine.device.memory_bytes = 80e9;
  machine.device.memory_bandwidth = 2e12;
  machine.gpus_per_node = 8;
  machine.max_nodes = 1024;
  machine.intra = IntraLink::nvlink;
  machine.nvlink.links_per_gpu = 12;
  machine.nvlink.bytes_per_second = 25e9;
  machine.fabric.kind = FabricKind::infiniband;
  machine.fabric.nics_per_node = 8;
  machine.fabric.nic_bytes_per_second = 25e9;
  machine.fabric.latency_seconds = 2e-6;
  return machine;
}

// A job of `layers` layers with a weight of `elements` elements each, without input copy and
// buffers.
inline Job toy_job(int layers = 4, double elements = 10e6, int gpus = 8,
                   std::shared_ptr<const ComputeCosts> costs = std::make_shared<ToyCosts>()) {
  Job job;
  job.machine = toy_machine();
  job.mesh.data = gpus;
  edit_step(job).samples = 32;
  for (int i = 0; i < layers; ++i) {
    Layer layer;
    layer.name = "layer" + std::to_string(i);
    layer.kind = "linear";
    const auto count = static_cast<std::int64_t>(elements);
    layer.parameters = {{layer.name + ".weight", {1000, count / 1000}, count, true}};
    layer.inputs = {i - 1};
    layer.output_bytes = 1e6;
    layer.output_storage = i;
    edit_step(job).layers.push_back(layer);
    edit_step(job).parameter_count += count;
  }
  job.costs = std::move(costs);
  job.simulation.steps = 20;
  job.simulation.interference = false;
  return job;
}

// A strategy's result as numbers that fit through a pipe. `traffic` is the sum over all link
// classes.
struct Numbers {
  double first = 0, step = 0, extrapolated = 0, steps = 0, busy = 0;
  StepSplit split;
  double traffic = 0, busiest = 0, link_busy = 0, samples = 0;
};

inline Numbers simulate(const Job& job, const StrategyOptions& options,
                        std::vector<double>* all_steps = nullptr) {
  const std::vector<double> v = in_child([&] {
    const StrategyResult r = make_strategy(options)->simulate(job);
    double sum = 0;
    for (const double seconds : r.step_seconds) sum += seconds;
    double traffic = 0, busiest = 0, link_busy = 0;
    for (const LinkTraffic& link : r.traffic) {
      traffic += link.total_bytes;
      busiest = std::max(busiest, link.bytes);
      link_busy = std::max(link_busy, link.busy);
    }
    const auto steps = static_cast<double>(r.step_seconds.size());
    std::vector<double> out{r.first_step_seconds,
                            sum / steps,
                            r.extrapolated ? 1.0 : 0.0,
                            steps,
                            r.device_busy,
                            r.split.data_loading,
                            r.split.forward,
                            r.split.backward,
                            r.split.optimizer,
                            r.split.copies,
                            r.split.exposed_communication,
                            r.split.host_bound,
                            r.split.waiting,
                            r.split.bubble,
                            traffic,
                            busiest,
                            link_busy,
                            r.samples_per_step};
    out.insert(out.end(), r.step_seconds.begin(), r.step_seconds.end());
    return out;
  });
  if (all_steps != nullptr) all_steps->assign(v.begin() + 18, v.end());
  return {v[0],  v[1],  v[2],
          v[3],  v[4],  {v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13], {}},
          v[14], v[15], v[16],
          v[17]};
}

inline double sum(const StepSplit& s) {
  return s.data_loading + s.forward + s.backward + s.optimizer + s.copies +
         s.exposed_communication + s.host_bound + s.waiting + s.bubble;
}

// The largest difference of any figure; seconds are relative to the step.
inline double difference(const Numbers& a, const Numbers& b) {
  const auto relative = [](double x, double y) {
    return x == y ? 0 : std::abs(x - y) / std::max(std::abs(x), std::abs(y));
  };
  double result = std::max(relative(a.first, b.first), relative(a.step, b.step));
  for (const double x :
       {relative(a.steps, b.steps), relative(a.traffic, b.traffic), relative(a.busiest, b.busiest),
        relative(a.link_busy, b.link_busy), std::abs(a.busy - b.busy) / a.step}) {
    result = std::max(result, x);
  }
  for (const auto part : step_parts) {
    result = std::max(result, std::abs(a.split.*part - b.split.*part) / a.step);
  }
  return result;
}

}  // namespace lockstep::testing
