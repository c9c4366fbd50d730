// Local SGD: every rank trains a whole model on its own, and every few steps all ranks average
// their parameters (fact 88; Stich, "Local SGD Converges Fast and Communicates Little", 2019).
// Private to the room; others use strategies/table.hpp.
#pragma once

#include "strategies/local_sgd/options.hpp"
#include "strategies/strategy.hpp"

namespace lockstep {

class LocalSgd final : public StrategyOf<LocalSgdOptions> {
 public:
  explicit LocalSgd(const LocalSgdOptions& options) : StrategyOf(options) {}
  StrategyResult simulate(const Job& job) const override;
  std::vector<MemoryUse> stage_memory(const Job& job, const MemoryQuery& query = {}) const override;
  nlohmann::ordered_json communication(const Job& job) const override;
  std::vector<IdleOption> idle_options(const Job& job) const override;
  std::vector<std::string> not_replayed(const Job& job) const override;

 private:
  // Bytes of one rank that are averaged.
  double flat_bytes(const Job& job) const;
};

}  // namespace lockstep
