// The table at the end of `lockstep closed-loop`, which compares real training with its prediction.
// closed_loop.cpp fills one Truth for each strategy.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "closed_loop/closed_loop.hpp"
#include "launch/machine_state.hpp"
#include "results/real_run.hpp"

namespace lockstep {

// The disturbance of a repetition, and its random error.
struct Unrest {
  Disturbance load;  // use of the machine by others during the training
  // Relative random error of its median step (95 %), from the differences between its steps.
  double chance = 0;
};
// The unrest of a run. `chance` is 0 for runs with a server, whose updates may come in bunches.
Unrest unrest_of(const RealRun& run, const Disturbance& load);
// Whether the repetition is accurate enough to detect an error of `share`.
bool quiet(const Unrest& unrest, double share);

// Measurements of one strategy's repetitions, and their predictions.
struct Truth {
  std::vector<double> step_seconds;  // measured step of each repetition
  std::vector<double> predicted;     // predicted step of each repetition
  // For strategies whose ranks know their compute time, by repetition: compute in the run relative
  // to the measured layers (mean over ranks), and the step that is predicted with these ratios.
  std::vector<double> compute, predicted_so;
  std::vector<double> staleness;  // mean staleness of each repetition
  std::vector<double> predicted_staleness;
  std::map<std::int64_t, std::int64_t> histogram, predicted_histogram;  // sums over all repetitions
  double memory = 0;                                                    // bytes
  std::vector<Unrest> unrest;                                           // of each repetition
};
// Number of repetitions that are quiet enough for the error that the user allows.
std::size_t quiet_repetitions(const Truth& truth, const ClosedLoopOptions& options);

// Adds a real run, and its prediction.
void add_repetition(Truth& truth, const RealRun& run, const Prediction& predicted,
                    const Disturbance& load = {});
// Adds the compute of each rank relative to the measured layers, and the prediction `so` that uses
// it.
void add_own_compute(Truth& truth, const std::vector<double>& of_ranks, const Prediction& so);

struct LoopReport {
  std::string text;
  double worst = 0;      // largest |error| of a step time with quiet repetitions
  bool decided = false;  // whether any strategy had quiet repetitions
};
// The reason for which the loop fails; "" if it passes, or if no max_error was requested.
std::string objection(const ClosedLoopOptions& options, const LoopReport& report);
// 0 if the loop passes, 4 if the error of a quiet strategy is larger than max_error, 75 if no
// strategy was quiet.
int exit_code(const ClosedLoopOptions& options, const LoopReport& report);
// REQUIRES: `truths` has one element for each prediction of the record, with at least one
// repetition.
LoopReport closed_loop_report(const ClosedLoopOptions& options, const ResultRecord& record,
                              const std::vector<Truth>& truths);

}  // namespace lockstep
