// Device memory under a parameter server. A worker is a replica, without optimizer state unless the
// worker has its own optimizer. With `placement: gpu`, the memory of server processes is added on
// the fullest GPU: parameters, optimizer state and one receive buffer for each worker
// (docs/parameter-server-base.md).
#include <algorithm>

#include "memory/step_memory.hpp"
#include "strategies/common/run_steps.hpp"
#include "strategies/common/update.hpp"
#include "strategies/parameter_server/build.hpp"
#include "strategies/parameter_server/messages.hpp"
#include "strategies/parameter_server/parameter_server.hpp"

namespace lockstep {

namespace {

// The memory of a worker's step. Gradients add up over all micro-batches between two pushes, or
// between two steps of the worker's own optimizer.
MemoryPlan worker_memory_plan(const Job& job, const ParameterServerOptions& options) {
  MemoryPlan plan;
  plan.micro_batches = job.accumulation * options.exchange_every;
  if (workers_step(options)) plan.micro_batches = job.accumulation;
  if (options.push == PushedValues::parameters) {  // a copy of the pulled parameters
    plan.replicated.hook_state_bytes +=
        static_cast<double>(job.step->parameter_count) * parameter_bytes(job.step->precision);
  }
  if (workers_step(options) || workers_update(options)) {
    plan.optimizer = optimizer_memory(job.optimizer, job.step->precision);
  }
  if (std::holds_alternative<TopK>(options.compression)) {  // gradients that are not yet pushed
    plan.replicated.hook_state_bytes +=
        static_cast<double>(job.step->parameter_count) * gradient_bytes(job.step->precision);
  }
  if (job.machine.device.architecture == Architecture::cpu) {
    // The one message into which a worker on a CPU copies its gradients (workers.cpp).
    plan.replicated.hook_state_bytes +=
        static_cast<double>(job.step->parameter_count) * gradient_bytes(job.step->precision);
  }
  return plan;
}

// The memory of one server process: its tensors or parts of tensors, its optimizer state and its
// receive buffers.
ServerPlan server_memory_plan(const Job& job, const ParameterServerOptions& options,
                              const std::vector<Key>& keys, int server) {
  ServerPlan plan;
  std::vector<int> tensors;
  int last_tensor = -1;
  for (const Key& key : keys) {
    if (key.server != server) continue;
    if (key.tensor != last_tensor) {
      plan.tensor_elements.push_back(0);
      tensors.push_back(key.tensor);
    }
    plan.tensor_elements.back() += static_cast<double>(key.elements);
    last_tensor = key.tensor;
  }
  plan.element_bytes = parameter_bytes(job.step->precision);
  plan.pushed_bytes = push_element_bytes(options, job.step->precision);
  if (options.push == PushedValues::parameters && steps_outward(options)) {
    plan.optimizer.state_bytes_per_element = plan.element_bytes;  // the outer momentum
  }
  if (!workers_step(options) && !workers_update(options)) {
    plan.optimizer = optimizer_memory(of_tensors(job.optimizer, tensors), job.step->precision);
  }
  if (const Weighting by = weighting(options); compensates(by)) {
    // One copy of the weights for each worker, as the worker read them (fact 85). The adaptive
    // lambda also needs the moving mean of squared gradients.
    const int kept = job.mesh.gpus() + (by == Weighting::compensated_adaptive ? 1 : 0);
    const double bytes = kept * parameter_bytes(job.step->precision);
    plan.optimizer.state_bytes_per_element += bytes;
    for (TensorUpdate& other : plan.optimizer.others) other.state_bytes_per_element += bytes;
  }
  // Pushes of different workers arrive at the same time, each in its own buffer. A serial server
  // has one buffer for the push that it receives, and another for the sum of a synchronous update.
  plan.receive_buffers =
      options.serial ? 1 + (options.consistency == Consistency::sync) : job.mesh.gpus();
  return plan;
}

// Adds the memory of a process that runs on the same device.
template <class Sum>
void add(Sum& sum, const StepMemory& memory) {
  sum.allocated += memory.allocated;
  sum.reserved += memory.reserved;
  sum.device += memory.device;
  sum.retries += memory.retries;
}

}  // namespace

std::vector<MemoryUse> ParameterServer::stage_memory(const Job& job,
                                                     const MemoryQuery& query) const {
  const ParameterServerOptions& options = options_;
  const PsJob ps = build_parameter_server(job, options);
  const StepMemory worker =
      step_memory(*job.step, worker_memory_plan(job, options), job.machine.device, query);
  MemoryUse use = memory_use(worker, job.machine.device);
  if (options.placement != ServerPlacement::gpu) return {use};

  // Each server is a process on a GPU, besides a worker's process. The GPU whose servers need the
  // most memory determines the result.
  std::vector<StepMemory> of_place(ps.places.size());
  for (int server = 0; server < options.servers; ++server) {
    const StepMemory memory_of_server =
        server_memory(server_memory_plan(job, options, ps.keys, server), job.machine.device);
    add(of_place[static_cast<std::size_t>(server) % ps.places.size()], memory_of_server);
  }
  const StepMemory& fullest =
      *std::max_element(of_place.begin(), of_place.end(),
                        [](const auto& a, const auto& b) { return a.device < b.device; });
  add(use, fullest);
  use.at_peak["parameter server"] = fullest.allocated;
  return {use};
}

}  // namespace lockstep
