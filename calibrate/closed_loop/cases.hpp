// What `lockstep closed-loop` compares: each strategy as real training and as the scenario have it.
#pragma once

#include <string>
#include <vector>

#include "closed_loop/closed_loop.hpp"
#include "costs/profile.hpp"
#include "scenario/scenario.hpp"
#include "workload/model.hpp"

namespace lockstep {

// One strategy, as the scenario names it and as real training does.
struct Case {
  std::string label;
  StrategyOptions options;
  std::vector<std::string> real;  // words for `train`
};

// The chosen strategies of a network with or without repeated blocks. Throws ConfigError.
std::vector<Case> chosen_cases(const ClosedLoopOptions& options, bool has_blocks);

// One rank's step.
TrainingStep step_of(const ClosedLoopOptions& options, AttentionKind attention);

// Beside the profile and the platform in one folder, which may be moved. Without a profile:
// modelled.
Scenario scenario_of(const ClosedLoopOptions& options, const std::vector<Case>& cases,
                     const Profile& profile);

}  // namespace lockstep
