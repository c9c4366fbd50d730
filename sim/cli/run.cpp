// `lockstep run SCENARIO`: the prediction for every strategy and GPU count.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "cli/commands.hpp"
#include "results/render.hpp"

namespace lockstep {

int run_command(const std::string& file, const CommonOptions& options) {
  const Scenario scenario = read_scenario(file);
  ResultRecord record;
  {
    ProgressLine progress("simulating");
    record = run_scenario(scenario, progress.run_options(options.workers));
  }
  for (const auto& warning : record.warnings) fmt::print(stderr, "note: {}\n", warning);
  switch (options.format) {
    case Format::json:
      print(render_json(record));
      break;
    case Format::csv:
      print(render_csv(record));
      break;
    default:
      print(render_text(record));
      break;
  }
  const bool something_fits =
      std::any_of(record.predictions.begin(), record.predictions.end(),
                  [](const Prediction& p) { return !p.out_of_memory.has_value(); });
  return something_fits ? 0 : 3;
}

}  // namespace lockstep
