// The training step a scenario asks for: its model with the scenario's input, parameters and modes.
#pragma once

#include "scenario/scenario.hpp"
#include "workload/model.hpp"

namespace lockstep {

StepOptions step_options(const Scenario& scenario, const StrategyEntry& entry, std::int64_t micro);

// Throws ConfigError: what the scenario says and the model cannot do is refused where the scenario
// says it, everything else where the model does.
TrainingStep scenario_step(const Scenario& scenario, const ModelFile& model,
                           const StepOptions& options);

}  // namespace lockstep
