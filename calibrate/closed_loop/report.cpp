// Compares repetitions of real training with their predictions. Repetitions that other programs
// disturbed do not count. The other repetitions are summarised by a pseudo-median (Hodges and
// Lehmann), or by the median if they are few.
#include "closed_loop/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "core/statistics.hpp"
#include "core/units.hpp"
#include "results/table.hpp"

namespace lockstep {

namespace {

// Half the sum of absolute differences between two distributions: 0 = equal, 1 = nothing in common.
double total_variation(const std::map<std::int64_t, std::int64_t>& a,
                       const std::map<std::int64_t, std::int64_t>& b) {
  const auto total = [](const auto& h) {
    return std::accumulate(h.begin(), h.end(), 0.0,
                           [](double sum, const auto& bin) { return sum + double(bin.second); });
  };
  std::map<std::int64_t, double> difference;
  for (const auto& [value, count] : a) difference[value] += double(count) / total(a);
  for (const auto& [value, count] : b) difference[value] -= double(count) / total(b);
  double sum = 0;
  for (const auto& bin : difference) sum += std::abs(bin.second);
  return sum / 2;
}

std::vector<double> errors_of(const std::vector<double>& predicted,
                              const std::vector<double>& measured) {
  std::vector<double> errors;
  for (std::size_t r = 0; r < measured.size(); ++r) {
    errors.push_back(predicted[r] / measured[r] - 1);
  }
  return errors;
}

// The summary of repetitions: the pseudo-median, or for few repetitions the median, which a single
// outlier does not change.
double centre(const std::vector<double>& errors) {
  return pseudo_median_bounds(errors) ? pseudo_median(errors) : median(errors);
}

// The largest acceptable error if the user states none.
constexpr double usual_error = 0.1;

double error_to_tell(const ClosedLoopOptions& options) {
  return options.max_error.value_or(usual_error);
}

// The quiet repetitions, or all repetitions if none was quiet.
Truth counted(const Truth& truth, const ClosedLoopOptions& options) {
  if (quiet_repetitions(truth, options) == 0) return truth;
  Truth counts = truth;
  for (auto list : {&Truth::step_seconds, &Truth::predicted, &Truth::compute, &Truth::predicted_so,
                    &Truth::staleness, &Truth::predicted_staleness}) {
    if ((truth.*list).size() != truth.unrest.size()) continue;
    (counts.*list).clear();
    for (std::size_t r = 0; r < truth.unrest.size(); ++r) {
      if (quiet(truth.unrest[r], error_to_tell(options)))
        (counts.*list).push_back((truth.*list)[r]);
    }
  }
  return counts;
}

// For each strategy with repetitions that do not count, a sentence with the reason.
std::string noise(const ClosedLoopOptions& options, const ResultRecord& record,
                  const std::vector<Truth>& truths) {
  std::string text;
  for (std::size_t i = 0; i < truths.size(); ++i) {
    const std::vector<Unrest>& all = truths[i].unrest;
    const std::size_t still = quiet_repetitions(truths[i], options);
    if (still == all.size()) continue;
    double cores = 0, chance = 0;
    for (const Unrest& one : all) {
      cores = std::max(cores, one.load.foreign + one.load.stolen);
      chance = std::max(chance, one.chance);
    }
    text += fmt::format(
        "{}: the machine was quiet in {} of {} repetitions (others had up to {:.2f} cores; equal "
        "steps leave up to {:.1f} % to chance): {}.\n",
        record.predictions[i].strategy, still, all.size(), cores, 100 * chance,
        still > 0 ? "the others do not count" : "no verdict on this prediction");
  }
  return text;
}

Table table_of(const ResultRecord& record, const std::vector<Truth>& truths) {
  Table table({{"strategy", Table::Align::left},
               {"measured"},
               {"spread"},
               {"predicted"},
               {"error"},
               {"of each"},
               {"compute"},
               {"error so"},
               {"staleness"},
               {"predicted"},
               {"TV"},
               {"memory"},
               {"predicted"},
               {"error"}});
  const auto percent = [](double x) { return fmt::format("{:+.1f} %", 100 * x); };
  for (std::size_t i = 0; i < truths.size(); ++i) {
    const Prediction& p = record.predictions[i];
    const Truth& truth = truths[i];
    const double measured = median(truth.step_seconds);
    const double predicted = median(truth.predicted);
    // Each repetition is compared with the prediction from layers that were measured directly
    // before it.
    const std::vector<double> errors = errors_of(truth.predicted, truth.step_seconds);
    const double error = centre(errors);
    const auto [low, high] =
        std::minmax_element(truth.step_seconds.begin(), truth.step_seconds.end());
    std::vector<std::string> row{
        p.strategy,
        human(measured, Dimension::seconds, 4),
        fmt::format("{:.1f} %", 100 * (*high - *low) / measured),
        human(predicted, Dimension::seconds, 4),
        percent(error),
        fmt::format("{:+.1f} .. {:+.1f}", 100 * quantile(errors, 0), 100 * quantile(errors, 1))};
    // Values are missing after an interruption, or if a worker made no measured step.
    if (truth.compute.size() == truth.step_seconds.size()) {
      row.push_back(percent(median(truth.compute) - 1));
      row.push_back(percent(centre(errors_of(truth.predicted_so, truth.step_seconds))));
    } else {
      row.insert(row.end(), {"-", "-"});
    }
    if (!truth.predicted_staleness.empty() && !truth.staleness.empty()) {
      row.push_back(fmt::format("{:.2f}", median(truth.staleness)));
      row.push_back(fmt::format("{:.2f}", median(truth.predicted_staleness)));
      row.push_back(
          fmt::format("{:.2f}", total_variation(truth.histogram, truth.predicted_histogram)));
    } else {
      row.insert(row.end(), {"-", "-", "-"});
    }
    row.push_back(human(truth.memory, Dimension::bytes, 4));
    row.push_back(human(p.memory.allocated, Dimension::bytes, 4));
    row.push_back(percent(p.memory.allocated / truth.memory - 1));
    table.add_row(row);
  }
  return table;
}

// Confidence intervals of each strategy's error, if there are enough repetitions; otherwise empty.
// With a kept profile they do not include random errors of the profile.
std::string confidence(const ResultRecord& record, const std::vector<Truth>& truths) {
  std::vector<std::string> known;
  for (std::size_t i = 0; i < truths.size(); ++i) {
    const std::vector<double> errors = errors_of(truths[i].predicted, truths[i].step_seconds);
    if (const std::optional<ConfidenceBounds> bounds = pseudo_median_bounds(errors)) {
      known.push_back(fmt::format("{} {:+.1f} to {:+.1f} %", record.predictions[i].strategy,
                                  100 * bounds->low, 100 * bounds->high));
    }
  }
  if (known.empty()) return "";
  return fmt::format("Errors with 95 % confidence: {}.\n", fmt::join(known, "; "));
}

}  // namespace

Unrest unrest_of(const RealRun& run, const Disturbance& load) {
  constexpr std::size_t enough = 4;
  const std::vector<double>& steps = run.each_step_seconds;
  if (run.staleness || steps.size() < enough) return {load, 0};
  const double middle = median(steps);
  std::vector<double> distances;
  for (const double step : steps) distances.push_back(std::abs(step - middle));
  const double sigma = 1.4826 * median(distances) / middle;  // as for a normal distribution
  // Chance is two standard errors of a median.
  return {load, 2 * 1.2533 * sigma / std::sqrt(static_cast<double>(steps.size()))};
}

bool quiet(const Unrest& unrest, double share) {
  // Limits above the normal activity of a system, because a run is only seconds long and starts
  // processes.
  constexpr DisturbanceLimits limits{.foreign = 0.15, .stolen = 0.05};
  return !disturbed(unrest.load, limits) && unrest.chance <= share;
}

std::size_t quiet_repetitions(const Truth& truth, const ClosedLoopOptions& options) {
  return static_cast<std::size_t>(
      std::count_if(truth.unrest.begin(), truth.unrest.end(),
                    [&](const Unrest& unrest) { return quiet(unrest, error_to_tell(options)); }));
}

std::string objection(const ClosedLoopOptions& options, const LoopReport& report) {
  if (!options.max_error) return "";
  if (!report.decided) return "no verdict: the machine was quiet in no repetition";
  if (report.worst <= *options.max_error) return "";
  return fmt::format("an error of {:.1f} % is more than {:.1f} %", 100 * report.worst,
                     100 * *options.max_error);
}

int exit_code(const ClosedLoopOptions& options, const LoopReport& report) {
  if (objection(options, report).empty()) return 0;
  constexpr int try_again = 75;  // EX_TEMPFAIL, because a busy machine proves nothing
  return report.decided ? 4 : try_again;
}

void add_repetition(Truth& truth, const RealRun& run, const Prediction& predicted,
                    const Disturbance& load) {
  truth.unrest.push_back(unrest_of(run, load));
  truth.step_seconds.push_back(run.step_seconds);
  truth.predicted.push_back(step_beside(predicted));
  if (predicted.staleness) {
    truth.predicted_staleness.push_back(predicted.staleness->mean);
    for (const auto& [value, count] : predicted.staleness->histogram) {
      truth.predicted_histogram[value] += count;
    }
  }
  truth.memory = std::max(truth.memory, run.memory.allocated);
  if (!run.staleness) return;
  truth.staleness.push_back(run.staleness->mean);
  for (const auto& [value, count] : run.staleness->histogram) truth.histogram[value] += count;
}

void add_own_compute(Truth& truth, const std::vector<double>& of_ranks, const Prediction& so) {
  truth.compute.push_back(mean(of_ranks));
  truth.predicted_so.push_back(step_beside(so));
}

LoopReport closed_loop_report(const ClosedLoopOptions& options, const ResultRecord& record,
                              const std::vector<Truth>& truths) {
  LoopReport report;
  std::vector<Truth> counting;
  for (const Truth& truth : truths) {
    counting.push_back(counted(truth, options));
    if (quiet_repetitions(truth, options) == 0) continue;
    const Truth& row = counting.back();
    report.decided = true;
    report.worst =
        std::max(report.worst, std::abs(centre(errors_of(row.predicted, row.step_seconds))));
  }
  const Table table = table_of(record, counting);
  const ProvenanceShare& share = record.predictions.front().provenance;
  report.text = fmt::format(
      "{} on {} processes over {}, batch {} each: {} repetitions of {} steps, medians\n{}{}{}"
      "Predictions: {} % measured, {} % interpolated, {} % modelled costs; {}.\n",
      options.model, options.ranks, options.network, options.batch,
      truths.back().step_seconds.size(), options.steps, table.text(), confidence(record, counting),
      noise(options, record, truths), std::lround(100 * share.measured),
      std::lround(100 * share.interpolated), std::lround(100 * share.modelled),
      report.decided ? fmt::format("worst error {:.1f} %", 100 * report.worst)
                     : "no verdict: the machine was quiet in no repetition");
  return report;
}

}  // namespace lockstep
