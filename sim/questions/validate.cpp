// Predicts the measured rows of scenarios and tabulates the errors. A prediction must beat two
// baselines: perfect scaling from the smallest measured GPU count, and a fixed MFU.
#include "questions/validate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "core/statistics.hpp"
#include "core/units.hpp"
#include "points/measured.hpp"
#include "points/predict.hpp"
#include "questions/anchor.hpp"

namespace lockstep {

namespace {

// The values of a measured step time that the baselines need.
struct MeasuredTime {
  std::size_t row;  // index into the validation rows
  std::size_t entry;
  int gpus;
  std::int64_t global_batch;
  double step_seconds;
};

// Baseline: on every GPU count, each GPU processes as many samples per second as on the strategy's
// smallest measured GPU count.
void add_perfect_scaling(const std::vector<MeasuredTime>& times, std::vector<ValidationRow>& rows) {
  std::map<std::size_t, const MeasuredTime*> base;
  for (const auto& time : times) {
    auto& smallest = base[time.entry];
    if (smallest == nullptr || time.gpus < smallest->gpus) smallest = &time;
  }
  for (const auto& time : times) {
    const MeasuredTime& from = *base[time.entry];
    if (time.gpus == from.gpus) continue;
    const double rate_per_gpu =
        static_cast<double>(from.global_batch) / from.step_seconds / from.gpus;
    rows[time.row].perfect_scaling =
        static_cast<double>(time.global_batch) / (rate_per_gpu * time.gpus);
  }
}

std::string signed_percent(double fraction) {
  return fmt::format("{:+.1f} %", 100 * fraction);
}

// A value in its unit; "fits" as yes or no.
std::string value_text(const ValidationRow& row, double value) {
  if (row.quantity == "fits") return value > 0 ? "yes" : "no";
  return human(value, row.quantity == "step_s" ? Dimension::seconds : Dimension::bytes, 4);
}

// Statistics of the absolute errors of `rows`, and of the baselines for rows that have them.
ErrorSummary summary_of(const std::string& group, const std::vector<const ValidationRow*>& rows) {
  ErrorSummary summary;
  summary.group = group;
  summary.rows = rows.size();
  std::vector<double> errors, perfect, fixed;
  double inside = 0;
  for (const auto* row : rows) {
    errors.push_back(std::abs(error_of(*row)));
    if (row->perfect_scaling) {
      perfect.push_back(std::abs(relative_error(*row->perfect_scaling, row->measured)));
    }
    if (row->fixed_utilisation) {
      fixed.push_back(std::abs(relative_error(*row->fixed_utilisation, row->measured)));
    }
    if (row->interval.high > 0) {
      ++summary.with_interval;
      inside += row->measured >= row->interval.low && row->measured <= row->interval.high ? 1 : 0;
    }
  }
  summary.median = median(errors);
  summary.mean = mean(errors);
  summary.p90 = quantile(errors, 0.9);
  summary.worst = errors.empty() ? 0 : *std::max_element(errors.begin(), errors.end());
  if (!perfect.empty()) summary.perfect_scaling_mean = mean(perfect);
  if (!fixed.empty()) summary.fixed_utilisation_mean = mean(fixed);
  if (summary.with_interval > 0) {
    summary.inside = inside / static_cast<double>(summary.with_interval);
  }
  return summary;
}

}  // namespace

double relative_error(double predicted, double measured) {
  return predicted / measured - 1;
}

double error_of(const ValidationRow& row) {
  return row.quantity == "fits" ? std::abs(row.predicted - row.measured)
                                : relative_error(row.predicted, row.measured);
}

std::vector<ValidationRow> validate_scenario(const Scenario& scenario, const RunOptions& options) {
  const std::filesystem::path path(scenario.file);
  std::vector<ValidationRow> rows;
  std::vector<MeasuredTime> times;
  const auto scales = anchor_scales(scenario, options);
  // Each row is expanded separately, so that `measured:` may name a GPU count that the scenario
  // does not.
  std::vector<Point> points;
  std::vector<std::size_t> entries;
  for (const auto& measured : scenario.measured) {
    const std::size_t entry = entry_of(scenario, measured);
    entries.push_back(entry);
    points.push_back(
        expand(only(scenario, entry, measured.gpus),
               scales.empty() ? std::vector<CostScale>{} : std::vector<CostScale>{scales[entry]})
            .front());
    points.back().entry = entry;
  }
  const auto results = simulate(points, options);
  for (std::size_t i = 0; i < points.size(); ++i) {
    const MeasuredRow& measured = scenario.measured[i];
    const Prediction prediction = summarise_point(scenario, points[i], results[i]);
    ValidationRow row;
    row.group = std::filesystem::absolute(path).parent_path().filename().string();
    row.scenario = path.stem().string();
    row.strategy = points[i].label;
    row.gpus = measured.gpus;
    row.gpus_per_node = points[i].job.machine.gpus_per_node;
    row.source = measured.source;
    row.fits = !prediction.out_of_memory;
    row.calibration = measured.calibration;
    // A row at an anchored point does not test predictions.
    for (const auto& anchor : scenario.anchor) {
      row.calibration |= entry_of(scenario, anchor) == entries[i] && anchor.gpus == measured.gpus;
    }
    // One row for each measured value: step time, memory, whether the job fits.
    const double seconds = measured_step_seconds(scenario, points[i], measured);
    if (seconds > 0) {
      ValidationRow time = row;
      time.quantity = "step_s";
      time.predicted = mean(results[i].step_seconds);
      time.measured = seconds;
      time.interval = prediction.step_interval;
      time.step_error = prediction.step_error;
      // Baseline: model FLOPs at a fixed share of the device's peak.
      const double peak = peak_flops(points[i].job.machine.device, math_mode(points[i].precision));
      time.fixed_utilisation = points[i].model_flops / (baseline_utilisation * peak);
      times.push_back({rows.size(), entries[i], measured.gpus, points[i].global_batch, seconds});
      rows.push_back(time);
    }
    if (measured.memory) {
      ValidationRow memory = row;
      memory.quantity = "allocated_bytes";
      memory.predicted = prediction.memory.allocated;
      memory.measured = *measured.memory;
      rows.push_back(memory);
    }
    if (measured.fits) {
      ValidationRow fits = row;
      fits.quantity = "fits";
      fits.predicted = row.fits;
      fits.measured = *measured.fits;
      rows.push_back(fits);
    }
  }
  add_perfect_scaling(times, rows);
  return rows;
}

std::vector<ErrorSummary> summarise_errors(const std::vector<ValidationRow>& all) {
  std::vector<ValidationRow> rows;
  std::copy_if(all.begin(), all.end(), std::back_inserter(rows),
               [](const ValidationRow& row) { return row.quantity != "fits"; });
  // Names of the groups in order of first appearance.
  std::vector<std::string> groups;
  for (const auto& row : rows) {
    const std::string group = row.group + (row.calibration ? " (calibration)" : "");
    if (std::find(groups.begin(), groups.end(), group) == groups.end()) groups.push_back(group);
  }
  std::vector<ErrorSummary> summaries;
  std::vector<const ValidationRow*> tests;
  for (const auto& group : groups) {
    std::vector<const ValidationRow*> members;
    for (const auto& row : rows) {
      if (row.group + (row.calibration ? " (calibration)" : "") == group) members.push_back(&row);
    }
    summaries.push_back(summary_of(group, members));
  }
  for (const auto& row : rows) {
    if (!row.calibration) tests.push_back(&row);
  }
  if (!tests.empty()) summaries.push_back(summary_of("all tests of prediction", tests));
  // Adds a summary of the tests for which belongs() is true, unless it is true for none or for all
  // tests.
  const auto add_part = [&](const char* group, auto belongs) {
    std::vector<const ValidationRow*> part;
    std::copy_if(tests.begin(), tests.end(), std::back_inserter(part), belongs);
    if (!part.empty() && part.size() < tests.size()) summaries.push_back(summary_of(group, part));
  };
  add_part("  of these, on one GPU", [](const auto* row) { return row->gpus == 1; });
  add_part("  of these, on one node",
           [](const auto* row) { return row->gpus > 1 && row->gpus <= row->gpus_per_node; });
  add_part("  of these, on several nodes",
           [](const auto* row) { return row->gpus > row->gpus_per_node; });
  return summaries;
}

Table validation_table(const std::vector<ValidationRow>& rows) {
  using Align = Table::Align;
  Table table({{"scenario", Align::left},
               {"strategy", Align::left},
               {"GPUs"},
               {"predicted"},
               {"measured"},
               {"error"},
               {"in interval", Align::left},
               {"perfect scaling"},
               {"fixed utilisation"},
               {"used for", Align::left}});
  for (const auto& row : rows) {
    const auto baseline = [&](const std::optional<double>& value) {
      return value ? signed_percent(relative_error(*value, row.measured)) : std::string("-");
    };
    const bool inside = row.measured >= row.interval.low && row.measured <= row.interval.high;
    table.add_row(
        {row.group + "/" + row.scenario, row.strategy, std::to_string(row.gpus),
         value_text(row, row.predicted), value_text(row, row.measured),
         row.quantity == "fits" ? "-" : signed_percent(error_of(row)),
         row.interval.high > 0 ? (inside ? "yes" : "no") : "-", baseline(row.perfect_scaling),
         baseline(row.fixed_utilisation),
         fmt::format("{}{}", row.calibration ? "calibration" : "test",
                     row.fits || row.quantity == "fits" ? "" : ", called OUT OF MEMORY")});
  }
  return table;
}

Table summary_table(const std::vector<ErrorSummary>& summaries) {
  using Align = Table::Align;
  Table table({{"group", Align::left},
               {"rows"},
               {"median"},
               {"mean"},
               {"90th %"},
               {"worst"},
               {"in 90 % interval"},
               {"perfect scaling, mean"},
               {"fixed utilisation, mean"}});
  const auto text = [](double value) { return fmt::format("{:.1f} %", 100 * value); };
  for (const auto& s : summaries) {
    table.add_row({s.group, std::to_string(s.rows), text(s.median), text(s.mean), text(s.p90),
                   text(s.worst), text(s.inside),
                   s.perfect_scaling_mean ? text(*s.perfect_scaling_mean) : "-",
                   s.fixed_utilisation_mean ? text(*s.fixed_utilisation_mean) : "-"});
  }
  return table;
}

std::string validation_json(const std::vector<ValidationRow>& rows,
                            const std::vector<ErrorSummary>& summaries) {
  using Json = nlohmann::ordered_json;
  Json document;
  document["schema_version"] = 1;
  document["program_version"] = LOCKSTEP_VERSION;
  document["rows"] = Json::array();
  for (const auto& row : rows) {
    Json j{{"group", row.group},
           {"scenario", row.scenario},
           {"strategy", row.strategy},
           {"gpus", row.gpus},
           {"quantity", row.quantity},
           {"predicted", row.predicted},
           {"measured", row.measured},
           {"error", error_of(row)},
           {"interval", {row.interval.low, row.interval.high}},
           {"calibration", row.calibration},
           {"fits", row.fits},
           {"source", row.source}};
    if (row.perfect_scaling) j["perfect_scaling"] = *row.perfect_scaling;
    if (row.fixed_utilisation) j["fixed_utilisation"] = *row.fixed_utilisation;
    document["rows"].push_back(j);
  }
  document["summaries"] = Json::array();
  for (const auto& s : summaries) {
    Json j{{"group", s.group}, {"rows", s.rows},   {"median", s.median},         {"mean", s.mean},
           {"p90", s.p90},     {"worst", s.worst}, {"inside_interval", s.inside}};
    if (s.perfect_scaling_mean) j["perfect_scaling_mean"] = *s.perfect_scaling_mean;
    if (s.fixed_utilisation_mean) j["fixed_utilisation_mean"] = *s.fixed_utilisation_mean;
    document["summaries"].push_back(j);
  }
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace lockstep
