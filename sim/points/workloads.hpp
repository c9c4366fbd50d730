// Training steps with what their layers cost, shared by all points that need the same: the dearest
// part of making a point.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>

#include "costs/compute.hpp"
#include "points/inputs.hpp"
#include "points/misfits.hpp"
#include "points/what_if.hpp"
#include "scenario/scenario.hpp"
#include "strategies/strategy.hpp"
#include "workload/model.hpp"

namespace lockstep {

// Factors an anchor puts on the modelled costs; 1 = as modelled.
struct CostScale {
  double device = 1;         // device seconds of compute
  double host = 1;           // host seconds
  double communication = 1;  // seconds of a transfer alone
};

// What the model says, as the files describe the hardware and after a what-if question's change.
struct ModelledCosts {
  std::shared_ptr<const ComputeCosts> described, changed;
};

struct Workload : PricedStep {
  // Counts of the whole model, however it is spread over ranks; tokens of one sample. 0 of a later token slice.
  std::int64_t parameters = 0, tokens = 0;
  // Of one micro-batch's device work, on its own.
  double compute_seconds = 0, memory_bound_seconds = 0;
};

class Workloads {
 public:
  // The costs of a machine as its file describes it.
  std::shared_ptr<const ComputeCosts> described(const std::shared_ptr<const Machine>& machine,
                                                const Framework& framework);
  // One micro-batch as `step_options`, with parameters, gradients and optimizer in `precision`. Throws
  // ConfigError as scenario_step() does.
  std::shared_ptr<const Workload> get(const Scenario& scenario, const Inputs& inputs,
                                      const ModelledCosts& modelled, const CostScale& scale,
                                      const StepOptions& step_options, Precision precision);

 private:
  // Everything that a workload follows from. Files by their object, which is kept alive here.
  using Key = std::tuple<std::shared_ptr<const ComputeCosts>, std::shared_ptr<const Profile>,
                         std::shared_ptr<const ModelFile>, double, double, std::int64_t, Precision,
                         bool, bool, Precision, std::vector<std::int64_t>, std::int64_t,
                         std::int64_t, std::int64_t, std::map<std::string, std::int64_t>, bool,
                         bool, bool, Recompute, std::string, std::string, bool, Compile, bool, bool,
                         std::int64_t, LowPrecisionRecipe, bool, FrameworkKind>;
  using CostsKey =
      std::tuple<std::shared_ptr<const Machine>, FrameworkKind, double, double, double, int>;

  std::map<CostsKey, std::shared_ptr<const ComputeCosts>> costs_;
  std::map<Key, std::shared_ptr<const Workload>> workloads_;
};

StepOptions step_options(const Scenario& scenario, const StrategyEntry& entry, std::int64_t micro);

// Refuses fp8 and fp4 where the device has no units for them, and CUDA graphs of steps that wait for the device.
void check_fast_path(const Scenario& scenario, const StrategyEntry& entry, const Device& device,
                     Misfits& misfits);
void check_captured(const Scenario& scenario, const StrategyEntry& entry, const TrainingStep& step,
                    Misfits& misfits);

// Throws ConfigError: what the scenario says and the model cannot do is refused where the scenario
// says it, everything else where the model does.
TrainingStep scenario_step(const Scenario& scenario, const ModelFile& model,
                           const StepOptions& options);

}  // namespace lockstep
