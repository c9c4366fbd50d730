// `lockstep run SCENARIO`: the prediction for every strategy and GPU count.
#include <fmt/format.h>

#include "cli/verb.hpp"
#include "convergence/study.hpp"
#include "core/units.hpp"
#include "results/render.hpp"

namespace lockstep {

ResultRecord record_of(const Scenario& scenario, const CommonOptions& options) {
  ResultRecord record;
  {
    ProgressLine progress("simulating");
    record = run_scenario(scenario, progress.run_options(options.workers));
  }
  if (scenario.convergence) {
    ProgressLine progress("training");
    add_accuracy(scenario, record,
                 {.workers = options.workers,
                  .progress = [&](std::size_t done,
                                  std::size_t all) { progress.update({.done = done, .all = all}); },
                  .estimate =
                      [&](std::size_t trainings, double seconds) {
                        progress.clear();
                        fmt::print(stderr,
                                   "{} trainings, about {} on this machine; what is done is kept\n",
                                   trainings, human(seconds, Dimension::seconds, 2));
                      }});
  }
  return record;
}

namespace {

int run(const std::string& file, const CommonOptions& options) {
  const ResultRecord record = record_of(read_scenario(file), options);
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

Choice declare(CLI::App& app) {
  struct Arguments {
    std::string file;
    CommonOptions common;
  };
  const auto given = std::make_shared<Arguments>();
  CLI::App& verb = *app.add_subcommand("run", "Predict every strategy and GPU count of a scenario");
  verb.add_option("scenario", given->file, "Scenario file")->required();
  add_formats(verb, given->common, Formats::json_csv);
  add_workers(verb, given->common);
  add_examples(verb, {"scenarios/ovi2026/vgg16.yaml", "my.yaml --json > result.json",
                      "my.yaml --csv | column -s, -t | less -S"});
  return {&verb, [given] { return run(given->file, given->common); }};
}
const Verb verb{VerbGroup::questions, declare};

}  // namespace

}  // namespace lockstep
