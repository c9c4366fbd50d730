// The strategy `ddp`, DistributedDataParallel: every rank holds all parameters, and gradients are
// all-reduced in buckets while backward runs. Private to sim/strategies/ddp; other code uses
// strategies/table.hpp. docs/ddp.md describes the model, and strategies/strategy.hpp the overridden
// functions.
#pragma once

#include "strategies/ddp/options.hpp"
#include "strategies/strategy.hpp"

namespace lockstep {

class Ddp final : public StrategyOf<DdpOptions> {
 public:
  explicit Ddp(const DdpOptions& options) : StrategyOf(options) {}
  StrategyResult simulate(const Job& job) const override;
  std::string mesh_misfit(const ParallelOptions&) const override { return ""; }
  std::vector<MemoryUse> stage_memory(const Job& job, const MemoryQuery& query = {}) const override;
  nlohmann::ordered_json communication(const Job& job) const override;
  std::vector<IdleOption> idle_options(const Job& job) const override;
  void describe_updates(const Job& job, UpdateSchedule& schedule) const override;
  std::vector<std::string> not_replayed(const Job& job) const override;
};

}  // namespace lockstep
