// The strategy `gossip`: every rank trains a whole model, and averages its parameters with only a
// few other ranks. It simulates D-PSGD (Lian et al., "Can decentralized algorithms outperform
// centralized algorithms?", 2017), SGP (Assran et al., "Stochastic gradient push for distributed
// deep learning", 2019) and AD-PSGD (Lian et al., "Asynchronous decentralized parallel stochastic
// gradient descent", 2018). Private to sim/strategies/gossip; other code uses strategies/table.hpp.
#pragma once

#include "strategies/gossip/options.hpp"
#include "strategies/strategy.hpp"

namespace lockstep {

// strategies/strategy.hpp describes the overridden functions.
class Gossip final : public StrategyOf<GossipOptions> {
 public:
  explicit Gossip(const GossipOptions& options) : StrategyOf(options) {}
  StrategyResult simulate(const Job& job) const override;
  std::string mesh_misfit(const ParallelOptions&) const override {
    return "a rank averages the whole model";
  }
  std::vector<MemoryUse> stage_memory(const Job& job, const MemoryQuery& query = {}) const override;
  nlohmann::ordered_json communication(const Job& job) const override;
  std::vector<IdleOption> idle_options(const Job& job) const override;
  bool outlives_workers() const override { return options_.pairs() != nullptr; }
};

}  // namespace lockstep
