// The memory of device and host under FSDP. ShardedState plays the device's memory on the
// allocator. The host's memory is a sum of pinned shards, gradients and state. Sources are the
// facts 38-41, 43-45, 49, 50, 53, 58, 59 and 62 of docs/facts.md.
#include <algorithm>

#include "memory/step_player.hpp"
#include "strategies/common/update.hpp"
#include "strategies/fsdp/fsdp.hpp"
#include "strategies/fsdp/sharded_state.hpp"

namespace lockstep {

namespace {

// Bytes of a unit that one rank stores on the host with cpu_offload: shard and gradients in pinned
// memory. FSDP1 pins one flat tensor, FSDP2 each parameter. `bytes` is the size of an element.
OffloadedMemory of_unit(const FsdpUnit& unit, double shard, const FsdpOptions& options, int bytes) {
  OffloadedMemory memory;
  const auto add = [&](double elements) {
    memory.host += pinned_bytes(elements * bytes);
    memory.host_rounding += pinned_bytes(elements * bytes) - elements * bytes;
  };
  if (options.version == 1) {
    add(shard);
    if (unit.trainable_tensors() > 0) add(shard);
    return memory;
  }
  const double all = std::max(1.0, unit.elements());
  for (const Parameter& parameter : unit.parameters) {
    const double part = shard * static_cast<double>(parameter.count) / all;
    add(part);
    if (parameter.trainable) add(part);
  }
  return memory;
}

}  // namespace

OffloadedMemory fsdp_offloaded_memory(const Job& job, const FsdpLayout& layout) {
  OffloadedMemory memory;
  const FsdpOptions& options = layout.options;
  if (!layout.updates_on_host(job)) return memory;
  // common/offload.hpp computes the memory of DeepSpeed's offload; PyTorch's cpu_offload follows
  // below.
  if (!options.cpu_offload) {
    return offloaded_memory(job, options.offload,
                            layout.optimizer_elements() * options.offloaded_share());
  }
  memory.host = optimizer_memory(job.optimizer, job.step->precision).state_bytes_per_element *
                layout.optimizer_elements();
  for (std::size_t i = 0; i < layout.units.size(); ++i) {
    const OffloadedMemory unit =
        of_unit(layout.units[i], layout.layouts[i].shard, layout.options, layout.shard_bytes);
    memory.host += unit.host;
    memory.host_rounding += unit.host_rounding;
  }
  memory.host *= ranks_per_host(job);
  memory.host_rounding *= ranks_per_host(job);
  return memory;
}

StepMemory fsdp_memory(const StageMemory& stage, const FsdpLayout& layout,
                       const MemoryQuery& query) {
  const Job& job = stage.job;
  OptimizerMemory optimizer;
  if (layout.options.offloaded_share() < 1) {
    optimizer = optimizer_memory(job.optimizer, job.step->precision);
  }
  // Buffers of all the rank's communicators.
  double communication = mesh_communicator_bytes(job);
  if (layout.sharded()) communication += communicator_bytes(job.machine, layout.groups.shard);
  if (job.mesh.expert > 1) {
    communication += communicator_bytes(job.machine, layout.expert_groups.shard);
  }
  if (layout.node_groups.hybrid()) {
    communication += communicator_bytes(job.machine, layout.node_groups.shard) +
                     communicator_bytes(job.machine, layout.node_groups.replica);
  }
  if (layout.groups.replicas > 1)
    communication += communicator_bytes(job.machine, layout.groups.replica);
  const PlayedProgram program = stage.rank ? pipelined(*stage.rank, stage.program, stage.holding)
                                           : without_pipeline(*job.step, job.accumulation);
  return play_program<ShardedState>(*job.step, program, job.machine.device, communication, query,
                                    layout, optimizer);
}

}  // namespace lockstep
