// ZeRO stages 1 and 2 (Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion
// Parameter Models", 2020; facts 63-65). Every rank holds the whole model, computes all of its
// gradients, updates its share of the parameters, and gathers the other shares. Private to
// sim/strategies/zero; other code uses strategies/table.hpp.
#pragma once

#include "strategies/strategy.hpp"
#include "strategies/zero/options.hpp"

namespace lockstep {

// strategies/strategy.hpp describes the overridden functions.
class Zero final : public StrategyOf<ZeroOptions> {
 public:
  explicit Zero(const ZeroOptions& options) : StrategyOf(options) {}
  StrategyResult simulate(const Job& job) const override;
  std::vector<MemoryUse> stage_memory(const Job& job, const MemoryQuery& query = {}) const override;
  nlohmann::ordered_json communication(const Job& job) const override;
  Updater updater(const Job& job) const override;
  int state_ranks(const Job& job) const override;
  std::vector<IdleOption> idle_options(const Job& job) const override;
  void describe_updates(const Job& job, UpdateSchedule& schedule) const override;
  std::vector<std::string> not_replayed(const Job& job) const override;
  std::optional<Diagnostic> optimizer_misfit(const OptimizerSpec& optimizer,
                                             const Device& device) const override;
};

}  // namespace lockstep
