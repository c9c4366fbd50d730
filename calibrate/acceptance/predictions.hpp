// Predictions for the real runs of an acceptance, from the present profile. Used by its report.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "acceptance/plan.hpp"
#include "costs/profile.hpp"
#include "results/real_run.hpp"
#include "scenario/scenario.hpp"

namespace lockstep {

// The machine as a platform file: a host with one such GPU, or processes on this one.
std::string acceptance_platform(const Profile& profile, bool on_gpu, int most_ranks);

// The scenario that describes a real run, in the folder scenarios/ beside its profile.
Scenario scenario_of_unit(const Unit& unit, const Profile& profile, bool on_gpu);

struct Predictions {
  std::map<std::string, Prediction> made;      // by unit
  std::map<std::string, std::string> refused;  // unit: why there is none
};
// Predicts the units that were really trained, and keeps scenarios and records in the folder.
// Several ranks on one GPU are no machine that the simulator knows, and nothing is predicted
// without a profile: figures of the device models are no test. Ends early on Ctrl-C.
Predictions predict_units(const std::vector<Unit>& trained, const std::string& folder, bool on_gpu);

}  // namespace lockstep
