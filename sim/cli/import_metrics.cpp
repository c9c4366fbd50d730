// `lockstep import-metrics LOG` turns a training's log into `anchor:` and `measured:` rows of a
// scenario: the median step time and the peak memory.
//
//   lockstep import-metrics train.log --scenario my.yaml -o anchored.yaml
//
//   anchor:
//     - {gpus: 16, step_time: 5.53 s, source: "train.log (Megatron-LM), steps 1 to 45, median"}
//   measured:
//     - {gpus: 16, step_time: 5.53 s, peak_allocated: 56886281728 B, source: ...}
//
// Without -o it prints the rows. With a scenario it also compares the steps with the prediction.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/logged_run.hpp"
#include "core/describe_emit.hpp"
#include "core/errors.hpp"
#include "core/file_text.hpp"
#include "core/units.hpp"
#include "core/yaml.hpp"

namespace lockstep::import_metrics_verb {
namespace {

struct Arguments {
  LogQuestion question;
  std::string output = "-";  // "-" = standard output
};

// The text for a row's field `source`: file, program, steps and statistic.
std::string source_of(const LoggedRun& run) {
  if (run.steps.all.empty())
    return fmt::format("{} ({}), its summary", run.log.file, run.log.program);
  return fmt::format("{} ({}), steps {} to {}, median", run.log.file, run.log.program,
                     run.steps.all.front().first, run.steps.all.back().last);
}

// The two rows (anchor and measured) as YAML.
std::string rows(const LoggedRun& run) {
  const std::string label =
      run.strategy.empty() ? "" : fmt::format("strategy: {}, ", fields::yaml_text(run.strategy));
  const std::string figures = fmt::format("{}gpus: {}, step_time: {}", label, run.gpus,
                                          quantity_text(run.steps.median, Dimension::seconds));
  const std::string memory = run.steps.allocated > 0
                                 ? fmt::format(", peak_allocated: {}",
                                               quantity_text(run.steps.allocated, Dimension::bytes))
                                 : "";
  const std::string source = fields::yaml_text(source_of(run));
  return fmt::format("anchor:\n  - {{{}, source: {}}}\nmeasured:\n  - {{{}{}, source: {}}}\n",
                     figures, source, figures, memory, source);
}

// The scenario's own text with the rows at its end. Throws ConfigError if it already has such rows.
std::string with_rows(const std::string& scenario, const LoggedRun& run) {
  const Node root = Node::parse_file(scenario);
  // Rows of another measurement would contradict the new ones.
  for (const char* field : {"anchor", "measured"}) {
    if (root.find(field))
      throw ConfigError(root.find(field)->error("stands in the scenario already",
                                                "without -o the rows are printed, to add by hand"));
  }
  std::string text = file_text(scenario, most_of_a_description);
  if (!text.ends_with('\n')) text += '\n';
  return text + rows(run);
}

// Reads the log, compares it with a prediction if there is one, and prints or writes the rows.
int import_metrics(Arguments& arguments) {
  const LoggedRun run = logged_run(arguments.question);
  if (run.gpus == 0)
    throw file_error(run.log.file, "gpus", "are not in the log", "--gpus N, or --scenario");
  note(steps_text(run));
  if (run.predicted) {
    for (const std::string& sentence : what_differs(run.steps, *run.predicted))
      note("beside the prediction: " + sentence);
  }
  if (arguments.question.common.format == Format::json) {
    print(steps_json(run).dump(2) + "\n");
    // Without a scenario there is no file to add rows to, so -o gets only the rows.
  } else if (arguments.output == "-" || arguments.question.scenario.empty()) {
    write_answer(arguments.output, rows(run));
  } else {
    keep_inputs({arguments.question.scenario, arguments.question.log}, "--output",
                arguments.output);
    write_answer(arguments.output, with_rows(arguments.question.scenario, run));
  }
  return 0;
}

Choice declare(CLI::App& app) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App& verb = *app.add_subcommand(
      "import-metrics", "Anchors and measured figures of a scenario from a training's log");
  add_log_options(verb, arguments->question);
  verb.add_option("-o,--output", arguments->output,
                  "The scenario with the rows at its end (default: print the rows)");
  add_examples(verb, {"train.log --scenario my.yaml",
                      "wandb.csv --scenario my.yaml -o anchored.yaml", "megatron.log --gpus 64"});
  return {&verb, [arguments] { return import_metrics(*arguments); }};
}
const Verb verb{VerbGroup::formats, declare};

}  // namespace
}  // namespace lockstep::import_metrics_verb
