// The compared cases: training as options of `train` and as a scenario. Used by the closed loop to
// state both alike.
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
  std::vector<std::string> real;    // words for `train`
  std::vector<std::string> work{};  // words for `calibrate`: the case's work besides layers
};

// The cases with these labels; all without a label. Throws ConfigError.
std::vector<Case> chosen_cases(const Training& training, const std::vector<std::string>& labels);

// Options of the measuring half for the input, and for all parts of a `train` call but the
// strategy.
std::vector<std::string> input_words(const Training& training);
std::vector<std::string> train_words(const Training& training, int steps);

// One rank's step.
TrainingStep step_of(const Training& training, AttentionKind attention);

// Beside platform.yaml and profile.yaml in one folder, which may be moved; an empty profile =
// modeled.
Scenario scenario_of(const Training& training, const std::vector<Case>& cases,
                     const Profile& profile);

bool has_server(const Case& one);
// Workers of a server wait for its answer before each step, and do nothing else meanwhile; but
// where they make several steps by themselves.
bool waits_before_step(const Case& one);
// Its communication hook has work that is measured.
bool compresses(const Case& one);

// The measured batch of this training. Null if the profile does not have it.
const ProfileBatch* measured_batch(const Training& training, const Profile& profile);
// Mean seconds of forward and backward, from the measured layers and how far single steps are from
// their median. 0 = the profile does not have them.
double measured_compute(const Training& training, const Profile& profile);
// `scenario` with ranks that compute so much slower (or faster) than their layers were measured.
Scenario with_own_compute(Scenario scenario, const std::vector<double>& of_ranks);

}  // namespace lockstep
