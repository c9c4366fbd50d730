// Adds up the kernels of a layer behind the host's dispatch, by append() of costs/cost.hpp. On a
// CPU one thread dispatches and computes, so host time counts as device time.
#include "costs/roofline_costs.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

namespace lockstep {
namespace {

// The device with the attention speed of the framework's version of FlashAttention.
Device with_framework(Device device, const Framework& framework, const KernelLaw& law) {
  if (framework.flash_attention < 2) device.efficiency.attention *= law.flash_attention_1;
  if (framework.flash_attention > 2 && device.compute_capability >= 90) {
    device.efficiency.attention *= law.flash_attention_3;
  }
  return device;
}

}  // namespace

RooflineCosts::RooflineCosts(const Machine& machine, const Framework& framework,
                             const KernelLaw& law)
    : device_(with_framework(machine.device, framework, law)),
      rates_(host_rates(machine.host, framework)),
      one_thread_(machine.device.architecture == Architecture::cpu),
      law_(law) {}

QueuedWork RooflineCosts::dispatched(double operator_seconds, int operators, int launches,
                                     double device_seconds) const {
  const QueuedWork work =
      queued(operator_seconds, rates_.launch, operators, launches, device_seconds);
  if (!one_thread_) return work;
  const double both = work.host + work.busy;
  return {0, both, both};
}

QueuedWork RooflineCosts::run(const std::vector<Kernel>& kernels, int element_bytes,
                              double operator_seconds, LayerCost& cost) const {
  QueuedWork work;
  for (const Kernel& kernel : chosen_kernels(kernels, device_, law_, element_bytes)) {
    const KernelTime time = kernel_time(kernel, device_, law_, element_bytes);
    const double floor = kernel.launches * device_.efficiency.kernel_floor_seconds;
    const bool streams = time.memory > time.compute;
    if (streams) cost.memory_bound += time.total;
    (streams ? cost.streaming : cost.arithmetic) += time.total - floor;
    const QueuedWork next =
        dispatched(operator_seconds, kernel.operators, kernel.launches, time.total);
    work = append(work, next);
    if (kernel.pass == Pass::forward) continue;
    QueuedWork& part =
        kernel.pass == Pass::weight_gradient ? cost.weight_gradient : cost.input_gradient;
    part = append(part, next);
  }
  return work;
}

LayerCost RooflineCosts::layer(const TrainingStep& step, std::size_t index) const {
  const Layer& layer = step.layers.at(index);
  LayerCost cost;
  const int bytes = activation_bytes(step.precision);
  // Recomputation runs the module's Python code, so it dispatches at the forward rate. A compiled
  // graph calls kernels without modules and autograd.
  const double forward_operator = layer.compiled ? rates_.plain_operator : rates_.forward_operator;
  const double backward_operator =
      layer.compiled ? rates_.plain_operator : rates_.backward_operator;
  cost.forward = run(layer.forward, bytes, forward_operator, cost);
  cost.backward = run(layer.backward, bytes, backward_operator, cost);
  if (layer.checkpointed) {
    std::vector<Kernel> again;
    std::copy_if(layer.forward.begin(), layer.forward.end(), std::back_inserter(again),
                 [&](const Kernel& kernel) { return runs_again(layer, kernel); });
    const QueuedWork recomputed = run(again, bytes, forward_operator, cost);
    cost.backward = append(recomputed, cost.backward);
    cost.input_gradient = append(recomputed, cost.input_gradient);
  }
  return cost;
}

// The update's elementwise passes take time by their traffic. Muon's matrices run before them,
// kernel by kernel.
QueuedWork RooflineCosts::optimizer(const OptimizerSpec& optimizer, Precision precision,
                                    double elements, int tensors) const {
  const OptimizerTraffic traffic = traffic_beside_matrices(optimizer, precision, elements, tensors);
  const double seconds =
      stream_seconds(traffic.bytes_per_parameter * elements, traffic.launches, device_, law_);
  const bool loops = optimizer.implementation == OptimizerImplementation::for_loop;
  const QueuedWork rest = dispatched(loops ? rates_.update_operator : rates_.forward_operator,
                                     traffic.operators, traffic.launches, seconds);
  if (optimizer.matrices.empty()) return rest;
  return append(orthogonalised(optimizer.matrices, precision), rest);
}

QueuedWork RooflineCosts::orthogonalised(const std::vector<HiddenMatrix>& matrices,
                                         Precision precision) const {
  std::map<std::pair<std::int64_t, std::int64_t>, QueuedWork> priced;  // by shape
  QueuedWork all;
  for (const HiddenMatrix& matrix : matrices) {
    const auto [known, is_new] = priced.try_emplace({matrix.rows, matrix.columns});
    if (is_new) {
      LayerCost unused;
      known->second =
          run(muon_kernels(matrix, muon_sizes(precision)), 2, rates_.forward_operator, unused);
    }
    all = append(all, known->second);
  }
  return all;
}

QueuedWork RooflineCosts::stream(double bytes, int launches) const {
  return dispatched(rates_.plain_operator, launches, launches,
                    stream_seconds(bytes, launches, device_, law_));
}

}  // namespace lockstep
