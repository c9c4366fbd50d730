// `lockstep compare A [B]` answers: how much faster is one job than another, and which parts of the
// step make the difference? With one scenario, each strategy is compared with the first; with two,
// the points of B with the same points of A. Times are per sample, so that batches may differ.
//
//   lockstep compare before.yaml after.yaml --picture difference.svg
//
// The answer is a table with the ratio and its 90 % interval, then a sentence for each pair with
// the parts of the difference. Exit code: 1 if a point has no answer, 3 if no point of a scenario
// fits.
#include "questions/compare.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/verb.hpp"
#include "core/output.hpp"
#include "results/sentences.hpp"

namespace lockstep::compare_verb {

namespace {

struct Arguments {
  std::vector<std::string> files;
  std::string picture;  // an SVG file; "" = none
  CommonOptions common;
};

// The answer for --json.
std::string comparisons_json(const std::vector<Comparison>& list) {
  auto document = nlohmann::ordered_json::array();
  for (const Comparison& c : list) {
    auto parts = nlohmann::ordered_json::object();
    for (const Comparison::Part& part : c.parts) parts[part.phrase] = part.seconds;
    document.push_back({{"name", c.name},
                        {"base", c.base_name},
                        {"gpus", c.prediction.gpus},
                        {"speedup", c.speedup},
                        {"speedup_interval", {c.interval.low, c.interval.high}},
                        {"seconds_per_sample", seconds_per_sample(c.prediction)},
                        {"base_seconds_per_sample", seconds_per_sample(c.base)},
                        {"more_seconds_per_sample", parts}});
  }
  return document.dump(2) + "\n";
}

// The table for people. With two scenarios, their names are above the table, because they would
// fill its rows.
std::string table_text(std::vector<Comparison> list, const std::vector<ResultRecord>& records) {
  if (records.size() < 2) return comparison_table(list).folded(text_width, 2);
  for (Comparison& c : list) {
    c.name = c.prediction.strategy;
    c.base_name = c.base.strategy;
  }
  return wrapped(fmt::format("{} against {}", records.back().scenario, records.front().scenario)) +
         "\n\n" + comparison_table(list).folded(text_width, 2);
}

// Simulates the scenarios, compares them, and prints or draws the answer.
int compare(const Arguments& arguments) {
  const std::vector<std::string>& files = arguments.files;
  if (!arguments.picture.empty()) keep_inputs(files, "--picture", arguments.picture);
  std::vector<ResultRecord> records;
  {
    ProgressLine progress("simulating");
    for (const std::string& file : files) {
      records.push_back(run_scenario(scenario_of(file, arguments.common),
                                     progress.run_options(arguments.common.workers)));
    }
  }
  int code = 0;
  for (const ResultRecord& record : records) {
    tell_warnings(record);
    if (tell_failures(record.failures) != 0) code = 1;
  }
  const bool single = files.size() == 1;
  const std::vector<Comparison> list = single ? compare_strategies(records.front())
                                              : compare_scenarios(records.front(), records.back());
  // Without a common point there is nothing to compare. Failed simulations have been reported
  // above.
  if (list.empty() && code == 0) {
    throw single
        ? file_error(files.front(), "strategies", "has one strategy: nothing to compare",
                     "name a second scenario or a second strategy")
        : file_error(files.back(), "", "shares no strategy and GPU count with " + files.front());
  }
  const Format format = arguments.common.format;
  std::string text;
  if (format == Format::json) {
    text = comparisons_json(list);
  } else if (format != Format::text) {
    text = rendered(comparison_table(list), format);
  } else if (!list.empty()) {
    text = table_text(list, records) + "\n";
    for (const Comparison& comparison : list)
      text += wrapped(comparison_sentence(comparison)) + "\n";
  }
  print(text);
  if (!arguments.picture.empty()) write_answer(arguments.picture, comparison_picture(list));
  // The answer is printed even if nothing fits; the exit code says so.
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (code == 1 || something_fits(records[i].predictions)) continue;
    print_error("{}: nothing fits into memory\n", files[i]);
    code = 3;
  }
  return code;
}

Choice declare(CLI::App& app) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App& verb = *app.add_subcommand(
      "compare", "Compare the strategies of one scenario, or two scenarios point by point");
  verb.add_option("scenarios", arguments->files, "One or two scenario files")
      ->required()
      ->expected(1, 2);
  verb.add_option("--picture", arguments->picture, "Write the parts of both as bars, an SVG file");
  add_settings(verb, arguments->common);
  add_formats(verb, arguments->common, Formats::tables);
  add_workers(verb, arguments->common);
  add_examples(verb, {"scenarios/one_slow_gpu.yaml", "my.yaml --set gpus=64 --json",
                      "before.yaml after.yaml --markdown",
                      "before.yaml after.yaml --picture difference.svg"});
  return {&verb, [arguments] { return compare(*arguments); }};
}
const Verb verb{VerbGroup::questions, declare};

}  // namespace

}  // namespace lockstep::compare_verb
