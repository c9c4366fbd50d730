// `lockstep validate [FILES]` answers: how far are predictions from the measurements in scenarios
// (`measured:` rows)? Without files it uses all shipped scenarios.
//
//   lockstep validate --summary
//   lockstep validate my.yaml --max-error 25%
//
// The answer has a row for each measured value, and the errors by group, compared with two
// baselines: perfect scaling, and FLOPs at a fixed utilisation. --sources shows whether the 90 %
// intervals hold. Exit code 4 if the error of a row is larger than --max-error.
#include "questions/validate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "cli/options.hpp"
#include "cli/verb.hpp"
#include "core/errors.hpp"
#include "core/output.hpp"
#include "questions/coverage.hpp"
#include "results/cells.hpp"
#include "results/sentences.hpp"

namespace lockstep::validate_verb {

namespace {

struct Arguments {
  std::vector<std::string> files;
  std::string max_error;      // largest allowed error of a row; "" = no limit
  bool summary_only = false;  // text and Markdown without the table of rows
  bool sources = false;       // print only the table of intervals by source
  CommonOptions common;
};

// The given files, and the files of given folders in the order of their names. Throws ConfigError
// if a folder has no scenarios.
std::vector<std::string> files_of(const std::vector<std::string>& given) {
  std::vector<std::string> files;
  for (const std::string& path : given) {
    if (!std::filesystem::is_directory(path)) {
      files.push_back(path);
      continue;
    }
    const std::size_t before = files.size();
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      if (entry.path().extension() == ".yaml") files.push_back(entry.path().string());
    }
    if (files.size() == before) {
      throw file_error(path, "", "has no scenario", "a folder with .yaml files");
    }
    std::sort(files.begin() + static_cast<std::ptrdiff_t>(before), files.end());
  }
  return files;
}

// Simulates all measured points and prints their errors.
int validate(const Arguments& arguments) {
  std::optional<double> max_error;
  const Format format = arguments.common.format;
  if (arguments.sources && (format == Format::json || format == Format::openmetrics))
    throw file_error("", "--sources", "is a table", "text, --markdown or --csv");
  if (!arguments.max_error.empty()) max_error = parse_share("--max-error", arguments.max_error);
  const std::vector<std::string> files = files_of(arguments.files);
  std::vector<ValidationRow> rows;
  const auto all = files.empty() ? shipped_scenarios() : files;
  {
    ProgressLine progress("validating");
    for (std::size_t i = 0; i < all.size(); ++i) {
      progress.update({.done = i, .all = all.size()});
      const Scenario scenario = read_scenario(all[i]);
      // Shipped scenarios without measurements are skipped without a message.
      if (scenario.measured.empty()) {
        if (!files.empty()) print_error("{}: has no measured figures\n", all[i]);
        continue;
      }
      const auto more = validate_scenario(scenario, {arguments.common.workers, {}});
      rows.insert(rows.end(), more.begin(), more.end());
    }
  }
  if (arguments.sources) {
    const Table table = coverage_table(coverage_by_source(rows));
    print(rendered(table, format));
    return 0;
  }
  const auto summaries = summarise_errors(rows);
  const auto rows_text = [&](auto rendering) {
    return arguments.summary_only
               ? std::string()
               : "Predicted against measured\n\n" + (validation_table(rows).*rendering)() + "\n";
  };
  const std::string summary_title =
      wrapped(fmt::format("Absolute errors by group (baselines: perfect scaling from the smallest "
                          "GPU count of the same strategy; FLOPs at {:.0f} % utilisation)",
                          100 * baseline_utilisation)) +
      "\n\n";
  switch (arguments.common.format) {
    case Format::json:
      print(validation_json(rows, summaries));
      break;
    case Format::csv:
      print(validation_table(rows).csv());
      break;
    case Format::markdown:
      print(rows_text(&Table::markdown) + summary_title + summary_table(summaries).markdown());
      break;
    case Format::openmetrics:
      print(validation_openmetrics(summaries));
      break;
    case Format::text:
      print(rows_text(&Table::text) + summary_title + rendered(summary_table(summaries), format));
      break;
  }
  if (max_error) {
    for (const auto& row : rows) {
      // Written like this so that an error that is NaN also fails.
      if (!(std::abs(error_of(row)) <= *max_error)) {
        print_error("{}/{} {} is off by more than {:.1f} %\n", row.group, row.scenario,
                    point_text(row.strategy, row.gpus), 100 * *max_error);
        return 4;
      }
    }
  }
  return 0;
}

Choice declare(CLI::App& app) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App& verb =
      *app.add_subcommand("validate", "Compare predictions with measured figures in scenarios");
  verb.add_option("scenarios", arguments->files,
                  "Scenario files or folders (default: all shipped)");
  CLI::Option* const max_error =
      verb.add_option("--max-error", arguments->max_error,
                      "Fail (exit 4) if the error of a row is larger, e.g. 10%");
  CLI::Option* const summary =
      verb.add_flag("--summary", arguments->summary_only,
                    "Print only the errors by group, not every row (text and Markdown)");
  verb.add_flag("--sources", arguments->sources,
                "Print only the share of rows inside their interval by source, also with intervals "
                "fitted without that source (text, Markdown and CSV)")
      ->excludes(max_error)
      ->excludes(summary);
  add_formats(verb, arguments->common, Formats::all);
  add_workers(verb, arguments->common);
  add_examples(verb, {"--summary", "--sources", "scenarios/ovi2026/vgg16.yaml",
                      "my.yaml --max-error 25%", "--openmetrics > lockstep.prom"});
  return {&verb, [arguments] { return validate(*arguments); }};
}
const Verb verb{VerbGroup::questions, declare};

}  // namespace

}  // namespace lockstep::validate_verb
