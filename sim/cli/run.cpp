// `lockstep run SCENARIO`: the prediction for every strategy and GPU count.
#include "cli/commands.hpp"
#include "convergence/study.hpp"
#include "results/render.hpp"

namespace lockstep {

int run_command(const std::string& file, const CommonOptions& options) {
  const Scenario scenario = read_scenario(file);
  ResultRecord record;
  {
    ProgressLine progress("simulating");
    record = run_scenario(scenario, progress.run_options(options.workers));
  }
  if (scenario.convergence) {
    ProgressLine progress("training");
    add_accuracy(scenario, record, {options.workers, [&](std::size_t done, std::size_t all) {
                                      progress.update({.done = done, .all = all});
                                    }});
  }
  tell_warnings(record);
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
  if (const int code = tell_failures(record.failures)) return code;
  return something_fits(record.predictions) ? 0 : 3;
}

}  // namespace lockstep
