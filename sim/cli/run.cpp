// `lockstep run SCENARIO...` answers: what does the training cost with every strategy and on every
// GPU count, for every alternative that the scenarios list? The answer has step time, total time,
// cost, throughput, memory, traffic and the bottleneck of each point.
//
//   lockstep run scenarios/ovi2026/vgg16.yaml
//   lockstep run my.yaml --set gpus=8,16 --json > result.json
//
//   strategy  GPUs  precision     step   90 % interval  total   cost  samples/s
//   ddp          4  amp-fp16    121 ms  89.9 .. 162 ms  118 s  $0.45      4,240
//
// --trace writes the timeline of a few steps. Exit code: 1 if a point has no answer, 3 if nothing
// fits. The functions at the top are shared with other verbs (commands.hpp).
#include <fmt/format.h>

#include <cstdio>
#include <map>

#include "cli/alternatives.hpp"
#include "cli/config_options.hpp"
#include "cli/verb.hpp"
#include "convergence/study.hpp"
#include "core/errors.hpp"
#include "core/units.hpp"
#include "questions/trace.hpp"
#include "results/render.hpp"
#include "sweep/override.hpp"

namespace lockstep {

// The remaining time is measured from the start of the first training, without the preparation.
ReplaysOptions training_options(const char* verb, ProgressLine& progress, int workers) {
  return {.workers = workers,
          .verb = verb,
          .progress =
              [&](std::size_t done, std::size_t all) {
                if (done == 0) progress.restart();
                progress.update({.done = done, .all = all});
              },
          .estimate =
              [&](std::size_t trainings, double seconds) {
                progress.clear();
                note(fmt::format("{}, about {} on this machine; finished parts are kept",
                                 counted(trainings, "training"),
                                 human(seconds, Dimension::seconds, 2)));
              }};
}

Scenario scenario_of(const std::string& file, const CommonOptions& options) {
  return read_scenario_node(with_settings(Node::parse_file(file), options.settings), file);
}

ResultRecord record_of(const Scenario& scenario, const CommonOptions& options) {
  ResultRecord record;
  {
    ProgressLine progress("simulating");
    record = run_scenario(scenario, progress.run_options(options.workers));
  }
  if (scenario.convergence) {
    ProgressLine progress("training");
    add_accuracy(scenario, record, training_options("run", progress, options.workers));
  }
  return record;
}

}  // namespace lockstep

namespace lockstep::run_verb {
namespace {

struct Arguments {
  std::vector<std::string> files;
  ConfigSource from;
  CommonOptions common;
  std::string sort;         // "" = in the order of the scenario
  TraceOptions trace;       // no path = no trace
  std::string trace_steps;  // "3" or "1-3"; "" = default of TraceOptions
};

// Parses the first and the last step from "3" or "3-5". Throws ConfigError if the text is invalid.
std::pair<int, int> parse_steps(const std::string& text) {
  const auto number = [](const std::string& digits) {
    // At most six digits, so that the conversion cannot overflow.
    const bool is_one = !digits.empty() && digits.size() < 7 &&
                        digits.find_first_not_of("0123456789") == std::string::npos;
    return is_one ? std::stoi(digits) : -1;
  };
  const std::size_t dash = text.find('-');
  const int first = number(text.substr(0, dash));
  const int last = dash == std::string::npos ? first : number(text.substr(dash + 1));
  if (first >= 0 && first <= last) return {first, last};
  throw file_error("", "--trace-steps",
                   fmt::format("{} is no step, nor the first and the last", in_quotes(text)),
                   "for example 1-3; step 0 is the first");
}

// Prints one record, or the record of all alternatives, in the given format.
template <class Record>
void print_as(const Record& record, Format format) {
  switch (format) {
    case Format::json:
      print(render_json(record));
      break;
    case Format::csv:
      print(render_csv(record));
      break;
    default:
      print_text(render_text(record));
      break;
  }
}

// Predicts one scenario without alternatives, and writes its traces.
int run_one(const Scenario& scenario, const Arguments& arguments) {
  const CommonOptions& options = arguments.common;
  const bool traces = !arguments.trace.path.empty();
  // Reports mistakes in the options of a trace before a long simulation.
  if (traces) check_trace(scenario, arguments.trace);
  ResultRecord record = record_of(scenario, options);
  sort_predictions(record, sort_key(arguments.sort));
  tell_warnings(record);
  if (traces) {
    const RunOptions run_options{.workers = options.workers};
    const WrittenTraces written = write_traces(scenario, arguments.trace, record, run_options);
    for (const std::string& rank : written.left_out) note("no trace: " + rank);
    for (const std::string& file : written.files) note("trace: " + file);
  }
  print_as(record, options.format);
  if (const int code = tell_failures(record.failures)) return code;
  return something_fits(record.predictions) ? 0 : 3;
}

// Predicts several alternatives and prints one table.
int run_alternatives(const std::vector<Alternative>& alternatives, const Arguments& arguments) {
  AlternativesQuestion question = ask_alternatives(
      alternatives, arguments.common, [](const Alternative&, const AlternativeResult& answered) {
        for (const std::string& warning : answered.record.warnings) {
          note(fmt::format("note: {}: {}", name_of(answered.chosen), warning));
        }
      });
  AlternativesRecord& all = question.comparison.answered;
  if (all.alternatives.empty()) return question.code;
  sort_rows(all, sort_key(arguments.sort));
  print_as(all, arguments.common.format);
  return question.code;
}

int run(Arguments& arguments) {
  const std::string name = scenario_from(arguments.from, !arguments.files.empty());
  if (!name.empty()) arguments.files = {name};
  if (!arguments.trace_steps.empty()) arguments.trace.steps = parse_steps(arguments.trace_steps);
  const std::vector<Alternative> alternatives = alternatives_of(arguments.files, arguments.common);
  if (alternatives.size() == 1) return run_one(alternatives.front().scenario, arguments);
  if (!arguments.trace.path.empty()) {
    throw file_error("", "--trace",
                     fmt::format("is of one scenario, and these are {}", alternatives.size()),
                     "trace the alternative of interest on its own");
  }
  return run_alternatives(alternatives, arguments);
}

// Declares --trace and the options that choose strategies, GPU counts, ranks and steps for it.
void add_trace(CLI::App& verb, Arguments& parsed) {
  auto* group = verb.add_option_group("Timeline");
  auto* path = group->add_option("--trace", parsed.trace.path,
                                 "Write a trace for Perfetto and HolisticTraceAnalysis: FILE.json, "
                                 "FILE.json.gz, or FOLDER/ with a file for each rank");
  group
      ->add_option("--trace-format", parsed.trace.format,
                   "kineto (default), or chakra: MLCommons' execution traces of one step, *.et")
      ->needs(path)
      ->transform(CLI::CheckedTransformer(std::map<std::string, TraceFormat>{
          {"kineto", TraceFormat::kineto}, {"chakra", TraceFormat::chakra}}));
  group->add_option("--trace-strategy", parsed.trace.strategies, "Strategies (default: all)")
      ->needs(path)
      ->delimiter(',');
  group->add_option("--trace-gpus", parsed.trace.gpus, "Traced GPU counts (default: the largest)")
      ->needs(path)
      ->delimiter(',');
  group
      ->add_option("--trace-ranks", parsed.trace.ranks,
                   "Traced ranks (default: four, evenly spaced)")
      ->needs(path)
      ->delimiter(',')
      ->check(CLI::Range(0, 1 << 20));
  group->add_option("--trace-steps", parsed.trace_steps, "Traced steps, e.g. 1-3 (default: three)")
      ->needs(path);
}

Choice declare(CLI::App& app) {
  const auto parsed = std::make_shared<Arguments>();
  CLI::App& verb = *app.add_subcommand("run", "Predict every strategy and GPU count of a scenario");
  add_from(verb,
           verb.add_option("scenario", parsed->files,
                           "Scenario files; several are compared in one table; - = standard input"),
           parsed->from);
  add_settings(verb, parsed->common);
  add_sort(verb, parsed->sort);
  add_formats(verb, parsed->common, Formats::json_csv);
  add_workers(verb, parsed->common);
  add_trace(verb, *parsed);
  add_examples(verb, {"scenarios/ovi2026/vgg16.yaml", "my.yaml --json > result.json",
                      "--from train.sh --platform dgx-h100",
                      "my.yaml --set batch.global=256 --set gpus=8,16",
                      "my.yaml --csv | column -s, -t | less -S",
                      "scenarios/alternatives/which_machine.yaml --sort cost",
                      "my.yaml --trace step.json.gz", "my.yaml --trace traces/ --trace-ranks 0,8"});
  return {&verb, [parsed] { return run(*parsed); }};
}
const Verb verb{VerbGroup::questions, declare};

}  // namespace

}  // namespace lockstep::run_verb
