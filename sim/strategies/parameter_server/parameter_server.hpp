// Training with parameter servers: synchronous, asynchronous and stale-synchronous (facts 68-83).
// docs/strategies.md says what is modelled; system.hpp is the system that is played.
#pragma once

#include "memory/memory_plan.hpp"
#include "strategies/parameter_server/keys.hpp"
#include "strategies/strategy.hpp"

namespace lockstep {

class ParameterServer final : public StrategyOf<ParameterServerOptions> {
 public:
  explicit ParameterServer(const ParameterServerOptions& options) : StrategyOf(options) {}
  StrategyResult simulate(const Job& job) const override;
  MemoryUse memory(const Job& job, const MemoryAsked& asked = {}) const override;
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

// What a worker's device holds: optimizer state only where it steps by itself (elastic averaging),
// else the server has it (memory.cpp).
MemoryPlan worker_memory_plan(const Job& job, const ParameterServerOptions& options);
// What server `server` holds, when it runs on a GPU.
ServerPlan server_memory_plan(const Job& job, const ParameterServerOptions& options,
                              const std::vector<Key>& keys, int server);
// Of the fullest device: a worker, or a worker and the servers that share its GPU.
MemoryUse parameter_server_memory(const Job& job, const ParameterServerOptions& options,
                                  const std::vector<Key>& keys, const MemoryAsked& asked);

}  // namespace lockstep
