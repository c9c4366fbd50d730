// Device memory under FSDP: facts 38-41, 43-45, 49, 50, 53, 58, 62 of docs/strategies.md.
#include "memory/step_player.hpp"
#include "strategies/common/optimizer_memory.hpp"
#include "strategies/fsdp/fsdp.hpp"
#include "strategies/fsdp/sharded_state.hpp"

namespace lockstep {

StepMemory fsdp_memory(const Job& job, const FsdpLayout& layout) {
  OptimizerMemory optimizer;
  if (!layout.options.cpu_offload) {
    optimizer = optimizer_memory(job.optimizer, job.step.precision);
  }
  double communication = 0;
  if (layout.sharded()) communication += communicator_bytes(job.machine, layout.groups.shard);
  if (layout.groups.replicas > 1)
    communication += communicator_bytes(job.machine, layout.groups.replica);
  return play_steps<ShardedState>(job.step, job.machine.device, job.accumulation, communication,
                                  job.memory, layout, optimizer);
}

}  // namespace lockstep
