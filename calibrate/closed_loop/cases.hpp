// The compared cases: each is a training as options of `train` and as a scenario. The closed loop
// and the acceptance use them, so that both sides describe the same training.
#pragma once

#include <string>
#include <vector>

#include "closed_loop/closed_loop.hpp"
#include "costs/profile.hpp"
#include "scenario/scenario.hpp"
#include "workload/model.hpp"

namespace lockstep {

// One strategy, as options of a scenario and as words of a real training.
struct Case {
  std::string label;
  StrategyOptions options;
  std::vector<std::string> real;  // words for `train`
  // Words for `calibrate` that measure work of the case besides layers.
  std::vector<std::string> work{};
};

// The cases with these labels; all cases if `labels` is empty. Throws ConfigError.
std::vector<Case> chosen_cases(const Training& training, const std::vector<std::string>& labels);

// input_words(): options of the measuring half for the input. train_words(): a call of `train`
// without the strategy.
std::vector<std::string> input_words(const Training& training);
std::vector<std::string> train_words(const Training& training, int steps);

// The training step of one rank.
TrainingStep step_of(const Training& training, AttentionKind attention);

// The scenario of the training. It refers to platform.yaml and profile.yaml in its own folder,
// which may be moved. If `profile` is empty, costs are modelled.
Scenario scenario_of(const Training& training, const std::vector<Case>& cases,
                     const Profile& profile);

bool has_server(const Case& one);
// Whether ranks wait idly before each step: workers of a server wait for its answer, unless they
// make several steps between two exchanges.
bool waits_before_step(const Case& one);
// Whether the case has a communication hook whose work is measured.
bool compresses(const Case& one);

// The profile's measurement of this training's batch. Null if the profile does not have it.
const ProfileBatch* measured_batch(const Training& training, const Profile& profile);
// Mean seconds of forward and backward: the sum of the measured layers, which are medians, times
// the ratio of the mean to the median of single steps. 0 = the profile does not have the batch.
double measured_compute(const Training& training, const Profile& profile);
// Returns `scenario` with each rank slowed by its factor in `of_ranks`: its compute relative to the
// measured layers.
Scenario with_own_compute(Scenario scenario, const std::vector<double>& of_ranks);

}  // namespace lockstep
