// Reads a log, and predicts the same training if a scenario or a config is given. The prediction
// also gives the tokens, samples and GPUs of a step, which convert the rates of a log to step
// times.
#include "cli/logged_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/errors.hpp"
#include "core/units.hpp"
#include "points/points.hpp"

namespace lockstep {
namespace {

// The only prediction with the user's strategy and the log's GPU count. Throws ConfigError if there
// is none or more than one.
const Prediction& chosen(const std::vector<Prediction>& predictions, const LogQuestion& question,
                         std::optional<std::int64_t> gpus) {
  std::vector<const Prediction*> fitting;
  for (const Prediction& prediction : predictions) {
    const bool named = question.strategy.empty() || prediction.strategy == question.strategy;
    const bool counted = !gpus || prediction.gpus == *gpus;
    if (named && counted) fitting.push_back(&prediction);
  }
  if (fitting.size() == 1) return *fitting.front();
  throw file_error("", fitting.empty() ? "--scenario" : "--strategy",
                   fitting.empty()
                       ? "has no strategy of that name and GPU count"
                       : fmt::format("{} rows of the scenario could be the log's", fitting.size()),
                   "--strategy LABEL, --gpus N");
}

}  // namespace

void add_log_options(CLI::App& verb, LogQuestion& question) {
  verb.add_option("log", question.log,
                  "Log of torchtitan, Megatron-LM, nanotron, DeepSpeed or Hugging Face's trainers; "
                  "CSV of W&B or "
                  "TensorBoard; JSON lines")
      ->required();
  add_from(verb, verb.add_option("--scenario", question.scenario, "Scenario of the logged run"),
           question.from);
  verb.add_option("--strategy", question.strategy,
                  "Label of the strategy, if the scenario has several");
  add_settings(verb, question.common);
  add_formats(verb, question.common, Formats::json);
}

LoggedRun logged_run(LogQuestion& question) {
  LoggedRun run;
  run.log = training_log(question.log);
  run.gpus = run.log.gpus.value_or(question.from.answers.gpus.value_or(0));
  const bool named = !question.scenario.empty();
  if (named || !question.from.files.empty()) {
    const std::string name = scenario_from(question.from, named);
    const Scenario scenario = scenario_of(name.empty() ? question.scenario : name, question.common);
    const ResultRecord record = record_of(scenario, question.common);
    tell_failures(record.failures);
    // The user's --gpus replaces the number in the log.
    const auto asked = question.from.answers.gpus ? question.from.answers.gpus : run.log.gpus;
    const Prediction& prediction = chosen(record.predictions, question, asked);
    run.gpus = prediction.gpus;
    run.strategy = prediction.strategy;
    run.predicted = PredictedStep{prediction.step_seconds, prediction.step_interval.low,
                                  prediction.step_interval.high, prediction.memory.allocated,
                                  prediction.memory.reserved};
    run.steps = steady_steps(run.log, prediction.tokens_per_second * prediction.step_seconds,
                             prediction.samples_per_second * prediction.step_seconds, run.gpus);
  } else {
    // Without a prediction, rates of the log cannot be converted to times.
    run.steps = steady_steps(run.log, 0, 0, run.gpus);
  }
  for (const std::string& text : run.log.notes) note("note: " + text);
  return run;
}

std::string steps_text(const LoggedRun& run) {
  const auto time = [](double seconds) { return human(seconds, Dimension::seconds); };
  const SteadySteps& steps = run.steps;
  if (steps.all.empty()) return fmt::format("{} a step, by {}", time(steps.median), steps.source);
  return fmt::format(
      "{} a step: median of {}, steps {} to {}, by {}; 5 % to 95 %: {} .. {}", time(steps.median),
      steps.all.size() == 1 ? "1 entry" : fmt::format("{} entries", steps.all.size()),
      steps.all.front().first, steps.all.back().last, steps.source, time(steps.low),
      time(steps.high));
}

nlohmann::ordered_json steps_json(const LoggedRun& run) {
  const SteadySteps& steps = run.steps;
  nlohmann::ordered_json document{{"log", run.log.file},
                                  {"program", run.log.program},
                                  {"gpus", run.gpus},
                                  {"step_seconds", steps.median},
                                  {"step_seconds_5_percent", steps.low},
                                  {"step_seconds_95_percent", steps.high},
                                  {"entries", steps.all.size()},
                                  {"warm_up_steps", steps.warm_up},
                                  {"source", steps.source},
                                  {"allocated_bytes", steps.allocated},
                                  {"reserved_bytes", steps.reserved}};
  if (run.predicted) {
    document["predicted"] = {{"strategy", run.strategy},
                             {"step_seconds", run.predicted->seconds},
                             {"interval", {run.predicted->low, run.predicted->high}},
                             {"allocated_bytes", run.predicted->allocated},
                             {"reserved_bytes", run.predicted->reserved}};
    document["differs"] = what_differs(steps, *run.predicted);
  }
  document["stands_out"] = what_stands_out(steps);
  return document;
}

}  // namespace lockstep
