// The strategy `fsdp`: FullyShardedDataParallel (FSDP1) and fully_shard (FSDP2). Parameters,
// gradients and optimizer state are sharded; the parameters of a unit (units.hpp) are gathered
// before the unit computes. Private to sim/strategies/fsdp; other code uses strategies/table.hpp.
// Schedules are in fsdp1.cpp and fsdp2.cpp, costs in plan.cpp, memory in sharded_state.cpp.
#pragma once

#include "strategies/common/offload.hpp"
#include "strategies/common/stage_memory.hpp"
#include "strategies/fsdp/plan.hpp"
#include "strategies/strategy.hpp"

namespace lockstep {

// strategies/strategy.hpp describes the overridden functions.
class Fsdp final : public StrategyOf<FsdpOptions> {
 public:
  explicit Fsdp(const FsdpOptions& options) : StrategyOf(options) {}
  StrategyResult simulate(const Job& job) const override;
  std::vector<MemoryUse> stage_memory(const Job& job, const MemoryQuery& query = {}) const override;
  double least_communication_seconds(const Job& job) const override;
  nlohmann::ordered_json communication(const Job& job) const override;
  std::vector<IdleOption> idle_options(const Job& job) const override;
  void describe_updates(const Job& job, UpdateSchedule& schedule) const override;
  std::vector<std::string> not_replayed(const Job& job) const override;
  Updater updater(const Job& job) const override;
  int state_ranks(const Job& job) const override;
  Precision compute_precision(Precision precision) const override;
  bool autocasts(Precision precision) const override;
  bool widens_batch_norm(Precision precision) const override;
  std::optional<Diagnostic> misfit(Precision precision) const override;
  std::optional<Diagnostic> refusal(const Job& job, bool channels_last) const override;
  std::optional<Diagnostic> optimizer_misfit(const OptimizerSpec& optimizer,
                                             const Device& device) const override;
};

// Device memory of a rank of the stage. `layout` is that of the stage's job.
StepMemory fsdp_memory(const StageMemory& stage, const FsdpLayout& layout,
                       const MemoryQuery& query = {});

// Bytes that all ranks of the fullest node store on its host and drives; 0 without offload.
OffloadedMemory fsdp_offloaded_memory(const Job& job, const FsdpLayout& layout);

}  // namespace lockstep
