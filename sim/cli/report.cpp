// `lockstep report SCENARIO... -o FILE`: one page of all that `run` says, with charts. Like `run` it
// ends with 3 when nothing of a scenario fits.
#include "results/report.hpp"

#include <fmt/format.h>

#include "cli/verb.hpp"
#include "questions/chapter.hpp"
#include "scenario/alternatives.hpp"

namespace lockstep::report_verb {

namespace {

struct Arguments {
  std::vector<std::string> files;
  std::string output;
  CommonOptions common;
};

// The scenario's name, and what tells the alternative from the file's others.
std::string title_of(const Alternative& alternative) {
  std::string chosen;
  for (const auto& [field, value] : alternative.chosen) {
    chosen += fmt::format("{}{} {}", chosen.empty() ? "" : ", ", field, value);
  }
  const std::string& name = alternative.scenario.name;
  return chosen.empty() ? name : fmt::format("{} ({})", name, chosen);
}

int report(const Arguments& given) {
  keep_inputs(given.files, "--output", given.output);
  std::vector<ReportChapter> chapters;
  int code = 0;
  for (const std::string& file : given.files) {
    for (const Alternative& alternative : read_alternatives_node(Node::parse_file(file), file)) {
      const Scenario& scenario = alternative.scenario;
      ResultRecord record = record_of(scenario, given.common);
      record.scenario = title_of(alternative);
      if (tell_failures(record.failures) != 0) code = 1;
      if (code == 0 && !something_fits(record.predictions)) code = 3;
      chapters.push_back(
          report_chapter(scenario, std::move(record), {.workers = given.common.workers}));
    }
  }
  write_answer(given.output, render_report(chapters));
  return code;
}

Choice declare(CLI::App& app) {
  const auto given = std::make_shared<Arguments>();
  CLI::App& verb = *app.add_subcommand(
      "report", "One HTML page with the answer, charts, tables and inputs; needs no network");
  verb.add_option("scenarios", given->files,
                  "Scenario files; a chapter for each, and for each of its alternatives")
      ->required();
  verb.add_option("-o,--output", given->output, "The page, report.html; - = standard output")
      ->required();
  add_workers(verb, given->common);
  add_examples(verb, {"my.yaml -o report.html", "scenarios/ovi2026/*.yaml -o study.html"});
  return {&verb, [given] { return report(*given); }};
}
const Verb verb{VerbGroup::questions, declare};

}  // namespace

}  // namespace lockstep::report_verb
