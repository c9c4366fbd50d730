// Compares predictions with the `measured:` rows of scenarios, and with two simple baselines.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "points/simulate.hpp"
#include "results/table.hpp"
#include "scenario/scenario.hpp"

namespace lockstep {

struct ValidationRow {
  std::string group;     // scenario file's folder, "ovi2026"
  std::string scenario;  // scenario file's stem
  std::string strategy;
  int gpus = 1, gpus_per_node = 1;
  std::string quantity;  // "step_s", "allocated_bytes", "fits" (1 or 0)
  double predicted = 0, measured = 0;
  Interval interval;                        // of the prediction; low = high = 0 where none is given
  StepError step_error;                     // what the interval is made of
  std::optional<double> perfect_scaling;    // baseline; none at the smallest GPU count itself
  std::optional<double> fixed_utilisation;  // baseline; times only
  bool calibration =
      false;         // the row took part in a fit, or anchors its scenario: no test of prediction
  bool fits = true;  // predicted to fit (what was measured did fit)
  std::string source;
};

double relative_error(double predicted, double measured);  // predicted / measured - 1
double error_of(const ValidationRow& row);                 // the same; of "fits" 0 or 1

struct ErrorSummary {
  std::string group;
  std::size_t rows = 0;
  double median = 0, mean = 0, p90 = 0, worst = 0;  // of |relative error|
  std::optional<double> perfect_scaling_mean;
  std::optional<double> fixed_utilisation_mean;
  double inside = 0;              // fraction of measurements inside the prediction's 90 % interval
  std::size_t with_interval = 0;  // rows whose prediction has an interval
};

// Model FLOPs over peak that the fixed-utilisation baseline assumes for every run. 40 % is the
// usual rule of thumb for large transformers (the MFU most reports of well-tuned A100 training
// state).
inline constexpr double baseline_utilisation = 0.40;

std::vector<ValidationRow> validate_scenario(const Scenario& scenario, const RunOptions& options);

// One summary per group (in order of first appearance), then "all", over the rows that are no
// calibration, and its parts by number of nodes; groups of calibration rows only are summarised with " (calibration)" appended.
std::vector<ErrorSummary> summarise_errors(const std::vector<ValidationRow>& rows);

Table validation_table(const std::vector<ValidationRow>& rows);
Table summary_table(const std::vector<ErrorSummary>& summaries);
// OpenMetrics 1.0 text, for a dashboard that scrapes a nightly run: a gauge for each figure of a
// summary, by group. Errors and coverage are fractions; coverage only where predictions have an
// interval.
std::string validation_openmetrics(const std::vector<ErrorSummary>& summaries);
std::string validation_json(const std::vector<ValidationRow>& rows,
                            const std::vector<ErrorSummary>& summaries);

}  // namespace lockstep
