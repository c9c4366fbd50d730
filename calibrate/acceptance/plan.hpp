// The plan of an acceptance: its units, their order, and estimates of their durations. Make it
// before anything is measured. A unit runs once, in a process of its own, and leaves a result.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "acceptance/acceptance.hpp"
#include "closed_loop/closed_loop.hpp"

namespace lockstep {

// By kind of device and --quick.
struct AcceptanceScope {
  std::vector<std::string> models, others;  // calibrated, small ones first; not calibrated
  std::vector<std::int64_t> calibrated;     // batches
  std::int64_t between = 0, beyond = 0;     // batches of real runs beside them
  std::vector<Precision> precisions;
  int steps = 0;  // of a real run
  std::vector<int> rank_counts;
  std::vector<std::string> rank_models;
  std::int64_t rank_batch = 0;
  double layers_seconds = 0;  // for the layers of one batch
  std::string curve_sizes;    // of collectives, on a CPU
  double curve_seconds = 0;   // for each collective
  double unit_limit = 0;
};
AcceptanceScope scope_of(const AcceptanceOptions& options);

// The relation of a real run of one rank to the calibrated cases.
enum class Purpose { calibrated, between, beyond, other, ranks };
template <>
struct EnumNames<Purpose> {
  static constexpr std::array names{"calibrated", "between", "beyond", "other", "ranks"};
};

struct Unit {
  Stage stage = Stage::probes;
  std::string name;
  std::string model;  // "" = probes
  Precision precision = Precision::fp32;
  std::vector<std::int64_t> batches;  // calibrated; one of a real run
  int ranks = 1;
  std::string strategy;  // of a real run, as closed_loop/cases.hpp labels it; "" = measures
  Purpose purpose = Purpose::calibrated;

  bool trains() const { return !strategy.empty(); }
};

// Ordered by value, in case time runs out: the two most used precisions come before the others, and
// the calibration of a model comes beside its real runs.
std::vector<Unit> plan_of(const AcceptanceScope& scope, bool on_gpu);

// Throws ConfigError about words that name no unit.
std::vector<Unit> chosen_units(const AcceptanceOptions& options, const AcceptanceScope& scope);

// The training of a unit, at one of its batches.
Training training_of(const Unit& unit, std::int64_t batch);

// Seconds of each unit, from modeled steps; on a GPU, an H100's.
std::vector<double> estimated_seconds(const std::vector<Unit>& units, const AcceptanceScope& scope,
                                      bool on_gpu);

}  // namespace lockstep
