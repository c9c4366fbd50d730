// The strategy "parameter server": synchronous, asynchronous and stale-synchronous (facts 68-83).
// Private to the room; others use strategies/table.hpp. docs/strategies.md describes the model;
// system.hpp is the simulated system.
#pragma once

#include "strategies/parameter_server/options.hpp"
#include "strategies/strategy.hpp"

namespace lockstep {

class ParameterServer final : public StrategyOf<ParameterServerOptions> {
 public:
  explicit ParameterServer(const ParameterServerOptions& options) : StrategyOf(options) {}
  StrategyResult simulate(const Job& job) const override;
  std::string mesh_misfit(const ParallelOptions&) const override {
    return "a worker pushes the gradients of the whole model";
  }
  std::vector<MemoryUse> stage_memory(const Job& job, const MemoryQuery& query = {}) const override;
  nlohmann::ordered_json communication(const Job& job) const override;
  std::vector<IdleOption> idle_options(const Job& job) const override;
  std::vector<std::string> not_replayed(const Job& job) const override;
  std::optional<Diagnostic> optimizer_misfit(const OptimizerSpec& optimizer,
                                             const Device& device) const override;
  Updater updater(const Job& job) const override;
  int servers() const override { return options_.servers; }
  int server_hosts() const override;
  int state_nodes(const Job& job) const override;
  bool outlives_workers() const override;
};

}  // namespace lockstep
