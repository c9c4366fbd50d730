// Predictions for the real runs of an acceptance, made from the folder's present profile. The
// report compares them with the runs.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "acceptance/plan.hpp"
#include "costs/profile.hpp"
#include "results/real_run.hpp"
#include "scenario/scenario.hpp"

namespace lockstep {

// The machine as a platform file: a host with one GPU of the profile, or a host with `most_ranks`
// processes.
std::string acceptance_platform(const Profile& profile, bool on_gpu, int most_ranks);

// The scenario that describes a real run. It belongs into the folder scenarios/ next to the
// profile.
Scenario scenario_of_unit(const Unit& unit, const Profile& profile, bool on_gpu);

struct Predictions {
  std::map<std::string, Prediction> made;      // by unit
  std::map<std::string, std::string> refused;  // by unit: reason for having no prediction
};
// Predicts the units that were trained, and writes scenarios and records to the folder. Several
// ranks on one GPU are not predicted, because the simulator does not model such a machine. Without
// a profile nothing is predicted, because a prediction by the device models would not test the
// profile. Ends early after Ctrl-C.
Predictions predict_units(const std::vector<Unit>& trained, const std::string& folder, bool on_gpu);

}  // namespace lockstep
