// The table at the end of `lockstep closed-loop`: real training beside its prediction. Fill one
// Truth for each strategy.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "closed_loop/closed_loop.hpp"
#include "launch/machine_state.hpp"
#include "results/real_run.hpp"

namespace lockstep {

// How much other programs disturbed a repetition.
struct Unrest {
  Disturbance load;   // while it trained
  double chance = 0;  // of its median step, relative, 95 %: from how far its equal steps differ
};
// `run`: a server's updates come in bunches, and say nothing of the machine.
Unrest unrest_of(const RealRun& run, const Disturbance& load);
// Whether the repetition can tell an error of `share`.
bool quiet(const Unrest& unrest, double share);

// Measurements of one strategy's repetitions, and their predictions.
struct Truth {
  std::vector<double> step_seconds;  // step of each repetition
  std::vector<double> predicted;     // for each repetition
  // Workers of servers, for each repetition: seconds of compute in the run relative to the measured
  // layers (mean of the ranks), and the step predicted with that ratio.
  std::vector<double> compute, predicted_so;
  std::vector<double> staleness;  // mean of each repetition
  std::vector<double> predicted_staleness;
  std::map<std::int64_t, std::int64_t> histogram, predicted_histogram;  // of all repetitions
  double memory = 0;                                                    // bytes
  std::vector<Unrest> unrest;                                           // of each repetition
};
// How many repetitions were quiet enough for the error that the user allows.
std::size_t quiet_repetitions(const Truth& truth, const ClosedLoopOptions& options);

// Adds a real run, and its prediction.
void add_repetition(Truth& truth, const RealRun& run, const Prediction& predicted,
                    const Disturbance& load = {});
// Adds the time of its ranks' compute relative to the measured layers, and the prediction with that
// time.
void add_own_compute(Truth& truth, const std::vector<double>& of_ranks, const Prediction& so);

struct LoopReport {
  std::string text;
  double worst = 0;      // largest |error| of a step time whose repetitions were quiet
  bool decided = false;  // a row was
};
// Why the loop does not pass; "" = it does, or nothing was asked for.
std::string objection(const ClosedLoopOptions& options, const LoopReport& report);
// 0 where it passes; 4 where a quiet row is off by more than max_error; 75 where no row was quiet.
int exit_code(const ClosedLoopOptions& options, const LoopReport& report);
// `truths`: one for each prediction of the record, each with a repetition at least.
LoopReport closed_loop_report(const ClosedLoopOptions& options, const ResultRecord& record,
                              const std::vector<Truth>& truths);

}  // namespace lockstep
