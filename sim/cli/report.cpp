// `lockstep report SCENARIO... -o FILE` writes one HTML page with the whole answer of `run`, with
// charts, tables and inputs. The page loads nothing from the network.
//
//   lockstep report my.yaml -o report.html
//
// Each scenario, and each alternative that it lists, is a chapter. If there are several chapters, a
// table compares them first. The exit code is that of `run`.
#include "results/report.hpp"

#include <fmt/format.h>

#include "cli/alternatives.hpp"
#include "questions/run.hpp"

namespace lockstep::report_verb {

namespace {

struct Arguments {
  std::vector<std::string> files;
  std::string output;
  std::string sort = "time";
  CommonOptions common;
};

// The chapter's title: the scenario's name, and the values that distinguish it from the file's
// other alternatives.
std::string title_of(const Alternative& alternative) {
  std::string chosen;
  for (const auto& [field, value] : alternative.chosen) {
    chosen += fmt::format("{}{} {}", chosen.empty() ? "" : ", ", field, value);
  }
  const std::string& name = alternative.scenario.name;
  return chosen.empty() ? name : fmt::format("{} ({})", name, chosen);
}

// Predicts all alternatives, makes their chapters, and writes the page.
int report(const Arguments& arguments) {
  keep_inputs(arguments.files, "--output", arguments.output);
  const std::vector<Alternative> alternatives = alternatives_of(arguments.files, arguments.common);
  // The settings precede the text of the file in the chapter, because they change it.
  std::string settings;
  for (const std::string& setting : arguments.common.settings)
    settings += "# --set " + setting + "\n";
  std::vector<ReportChapter> chapters;
  AlternativesQuestion question =
      ask_alternatives(alternatives, arguments.common,
                       [&](const Alternative& alternative, const AlternativeResult& answered) {
                         ResultRecord record = answered.record;
                         record.scenario = title_of(alternative);
                         chapters.push_back(report_chapter(alternative.scenario, std::move(record),
                                                           {.workers = arguments.common.workers}));
                         chapters.back().inputs = settings + chapters.back().inputs;
                       });
  // If no chapter exists, all alternatives are impossible, and their mistakes have been reported.
  if (chapters.empty()) return question.code;
  ReportAlternatives& comparison = question.comparison;
  comparison.sorted_by = sort_key(arguments.sort);
  sort_rows(comparison.answered, comparison.sorted_by);
  write_answer(arguments.output,
               render_report(chapters, alternatives.size() > 1 ? &comparison : nullptr));
  return question.code;
}

Choice declare(CLI::App& app) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App& verb = *app.add_subcommand(
      "report", "One HTML page with the answer, charts, tables and inputs; needs no network");
  verb.add_option("scenarios", arguments->files,
                  "Scenario files; one table of all, then a chapter for each file and alternative")
      ->required();
  verb.add_option("-o,--output", arguments->output, "The page, report.html; - = standard output")
      ->required();
  add_settings(verb, arguments->common);
  add_sort(verb, arguments->sort);
  add_workers(verb, arguments->common);
  add_examples(verb, {"my.yaml -o report.html", "scenarios/ovi2026/*.yaml -o study.html",
                      "scenarios/alternatives/which_machine.yaml --sort cost -o machines.html"});
  return {&verb, [arguments] { return report(*arguments); }};
}
const Verb verb{VerbGroup::questions, declare};

}  // namespace

}  // namespace lockstep::report_verb
