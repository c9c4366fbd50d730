// The strategy `parameter_server`: workers push gradients to servers and pull weights from them,
// under a synchronous, asynchronous or stale-synchronous rule (facts 68-83). It builds a PsSystem
// (build.hpp) and plays it (system.hpp). Private to sim/strategies/parameter_server; other code
// uses strategies/table.hpp. docs/parameter-server-base.md describes the model.
#pragma once

#include "strategies/parameter_server/options.hpp"
#include "strategies/strategy.hpp"

namespace lockstep {

// strategies/strategy.hpp describes the overridden functions.
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
