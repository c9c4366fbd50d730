// `lockstep validate [FILES]`: predictions against the measured figures in scenarios.
#include "questions/validate.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>

#include "cli/commands.hpp"
#include "results/cells.hpp"

namespace lockstep {

int validate_command(const std::vector<std::string>& files, const ValidateOptions& validate,
                     const CommonOptions& options) {
  std::vector<ValidationRow> rows;
  const auto all = files.empty() ? shipped_scenarios() : files;
  {
    ProgressLine progress("validating");
    for (std::size_t i = 0; i < all.size(); ++i) {
      progress.update({.done = i, .all = all.size()});
      const Scenario scenario = read_scenario(all[i]);
      if (scenario.measured.empty()) {
        if (!files.empty()) fmt::print(stderr, "{}: has no measured figures\n", all[i]);
        continue;
      }
      const auto more = validate_scenario(scenario, {options.workers, {}});
      rows.insert(rows.end(), more.begin(), more.end());
    }
  }
  const auto summaries = summarise_errors(rows);
  const auto rows_text = [&](auto rendering) {
    return validate.summary_only
               ? std::string()
               : "Predicted against measured\n\n" + (validation_table(rows).*rendering)() + "\n";
  };
  const std::string summary_title = fmt::format(
      "Absolute errors by group (baselines: perfect scaling from the smallest GPU count of the "
      "same "
      "strategy; FLOPs at {:.0f} % utilisation)\n\n",
      100 * baseline_utilisation);
  switch (options.format) {
    case Format::json:
      print(validation_json(rows, summaries));
      break;
    case Format::csv:
      print(validation_table(rows).csv());
      break;
    case Format::markdown:
      print(rows_text(&Table::markdown) + summary_title + summary_table(summaries).markdown());
      break;
    case Format::text:
      print(rows_text(&Table::text) + summary_title + summary_table(summaries).text());
      break;
  }
  if (validate.max_error) {
    for (const auto& row : rows) {
      if (!(std::abs(relative_error(row.predicted, row.measured)) <= *validate.max_error)) {
        fmt::print(stderr, "{}/{} {} is off by more than {:.1f} %\n", row.group, row.scenario,
                   point_text(row.strategy, row.gpus), 100 * *validate.max_error);
        return 4;
      }
    }
  }
  return 0;
}

}  // namespace lockstep
