// The strategy `local_sgd`: every rank trains a whole model by itself, and after every few steps
// all ranks average their parameters (fact 88; Stich, "Local SGD Converges Fast and Communicates
// Little", 2019). With an outer optimizer it is DiLoCo (Douillard et al. 2023). Private to
// sim/strategies/local_sgd; other code uses strategies/table.hpp.
#pragma once

#include "strategies/local_sgd/options.hpp"
#include "strategies/strategy.hpp"

namespace lockstep {

// strategies/strategy.hpp describes the overridden functions.
class LocalSgd final : public StrategyOf<LocalSgdOptions> {
 public:
  explicit LocalSgd(const LocalSgdOptions& options) : StrategyOf(options) {}
  StrategyResult simulate(const Job& job) const override;
  std::vector<MemoryUse> stage_memory(const Job& job, const MemoryQuery& query = {}) const override;
  nlohmann::ordered_json communication(const Job& job) const override;
  std::vector<IdleOption> idle_options(const Job& job) const override;
  std::vector<std::string> not_replayed(const Job& job) const override;

 private:
  // Bytes that one rank averages: its parameters, and the optimizer's state if average_state is
  // set.
  double flat_bytes(const Job& job) const;
};

}  // namespace lockstep
