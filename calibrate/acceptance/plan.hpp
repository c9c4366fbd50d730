// The plan of an acceptance: its units, their order, and estimates of their durations. It is made
// before anything is measured. A unit is one calibration or one real run; it runs once, in a
// separate process, and leaves a result.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "acceptance/acceptance.hpp"
#include "closed_loop/closed_loop.hpp"

namespace lockstep {

// The models and sizes of an acceptance, which depend on the kind of device and on --quick.
struct AcceptanceScope {
  // `models` are calibrated, small ones first; `others` are not.
  std::vector<std::string> models, others;
  std::vector<std::int64_t> calibrated;  // batches
  // Batches of real runs between and beyond the calibrated ones.
  std::int64_t between = 0, beyond = 0;
  std::vector<Precision> precisions;
  int steps = 0;  // steps of a real run
  std::vector<int> rank_counts;
  std::vector<std::string> rank_models;
  std::int64_t rank_batch = 0;
  double layers_seconds = 0;  // time for the layers of one batch
  std::string curve_sizes;    // sizes of collectives, on a CPU
  double curve_seconds = 0;   // seconds for each size of each collective
  double unit_limit = 0;
};
AcceptanceScope scope_of(const AcceptanceOptions& options);

// The relation of a real run to the calibrated cases: its batch was calibrated, lies between
// calibrated batches or beyond them, its model was not calibrated, or it has several ranks.
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
  std::vector<std::int64_t> batches;  // the calibrated batches, or the batch of a real run
  int ranks = 1;
  // Label of a real run's case (closed_loop/cases.hpp); "" = the unit calibrates or probes.
  std::string strategy;
  Purpose purpose = Purpose::calibrated;

  bool trains() const { return !strategy.empty(); }
};

// The most valuable units come first, because time may run out: the two most used precisions come
// before the others, and a model's real runs come directly after its calibration.
std::vector<Unit> plan_of(const AcceptanceScope& scope, bool on_gpu);

// The units of the plan that the options choose. Throws ConfigError for unknown stages, models or
// precisions.
std::vector<Unit> chosen_units(const AcceptanceOptions& options, const AcceptanceScope& scope);

// The training of a unit, at one of its batches.
Training training_of(const Unit& unit, std::int64_t batch);

// Estimated seconds of each unit, from modelled steps; for a GPU, an H100's steps.
std::vector<double> estimated_seconds(const std::vector<Unit>& units, const AcceptanceScope& scope,
                                      bool on_gpu);

}  // namespace lockstep
