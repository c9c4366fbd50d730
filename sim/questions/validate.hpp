// Validation: compares predictions with the `measured:` rows of scenarios, and with two simple
// baselines. `validate` prints the errors; docs and nightly runs use the summaries.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "points/simulate.hpp"
#include "results/table.hpp"
#include "scenario/scenario.hpp"

namespace lockstep {

// One measured value and its prediction.
struct ValidationRow {
  std::string group;     // folder of the scenario's file, such as "ovi2026"
  std::string scenario;  // name of the scenario's file, without .yaml
  std::string strategy;
  int gpus = 1, gpus_per_node = 1;
  std::string quantity;  // "step_s", "allocated_bytes" or "fits" (1 or 0)
  double predicted = 0, measured = 0;
  Interval interval;     // of the prediction; low = high = 0 if there is none
  StepError step_error;  // the parts of the interval
  // Step seconds by the baselines, only for rows of quantity "step_s". `perfect_scaling` is also
  // absent at the strategy's smallest measured GPU count.
  std::optional<double> perfect_scaling;
  std::optional<double> fixed_utilisation;
  // The row took part in a fit or anchors its scenario, so it does not test predictions.
  bool calibration = false;
  // Whether the job is predicted to fit into memory.
  bool fits = true;
  std::string source;
};

double relative_error(double predicted, double measured);  // predicted / measured - 1
double error_of(const ValidationRow& row);  // relative error; for "fits" 0 = right, 1 = wrong

// Errors of a group of rows.
struct ErrorSummary {
  std::string group;
  std::size_t rows = 0;
  double median = 0, mean = 0, p90 = 0, worst = 0;  // of the absolute relative error
  // Mean absolute relative errors of the baselines; absent if no row has the baseline.
  std::optional<double> perfect_scaling_mean;
  std::optional<double> fixed_utilisation_mean;
  double inside = 0;              // share of the rows with an interval that are inside it
  std::size_t with_interval = 0;  // rows whose prediction has an interval
};

// MFU that the fixed-utilisation baseline assumes for every run. 40 % is the usual rule of thumb
// for large transformers: most reports of well-tuned training on A100 name about this MFU.
inline constexpr double baseline_utilisation = 0.40;

// Predicts every measured row of the scenario and returns one row per measured value. Throws
// ConfigError for errors of the input, and std::runtime_error if a simulation fails.
std::vector<ValidationRow> validate_scenario(const Scenario& scenario, const RunOptions& options);

// One summary per group in order of first appearance. Calibration rows form groups of their own,
// with " (calibration)" after the name. Then come a summary of all tests of prediction, and
// summaries of the tests on one GPU, on several GPUs of one node, and on several nodes. Each of the
// last three is left out if it would contain no test or every test. "fits" rows have no relative
// error and are left out.
std::vector<ErrorSummary> summarise_errors(const std::vector<ValidationRow>& rows);

Table validation_table(const std::vector<ValidationRow>& rows);
Table summary_table(const std::vector<ErrorSummary>& summaries);
// OpenMetrics 1.0 text for a dashboard: gauges for the values of each summary, labelled by group.
// Errors and coverage are fractions; coverage is given only for groups with intervals.
std::string validation_openmetrics(const std::vector<ErrorSummary>& summaries);
std::string validation_json(const std::vector<ValidationRow>& rows,
                            const std::vector<ErrorSummary>& summaries);

}  // namespace lockstep
