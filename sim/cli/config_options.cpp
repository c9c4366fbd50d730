// Imports the config of a training program for the verbs that accept one, and prints how each key
// was understood. The imported scenario exists only in memory (keep_text()).
#include "cli/config_options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "cli/commands.hpp"
#include "core/errors.hpp"
#include "core/file_text.hpp"

namespace lockstep {

void add_answers(CLI::App& verb, ConfigAnswers& answers) {
  verb.add_option("--model", answers.model,
                  "A shipped model, a public model's name, a model file or a config.json");
  verb.add_option("--platform", answers.platform, "Name of a platform, or a path to one");
  if (!verb.get_option_no_throw("--gpus"))
    verb.add_option("--gpus", answers.gpus, "GPUs in all")->check(CLI::PositiveNumber);
  verb.add_option("--sequence", answers.sequence, "Tokens of a sample")->check(CLI::PositiveNumber);
  verb.add_option("--micro", answers.micro, "Samples of one forward and backward on one GPU")
      ->check(CLI::PositiveNumber);
  verb.add_option("--global", answers.global, "Samples of one step over all GPUs")
      ->check(CLI::PositiveNumber);
  verb.add_option("--format", answers.format,
                  "Program that the config belongs to, if its keys do not tell");
  verb.add_option("--leave-out", answers.leave_out, "Refused keys to ignore, or all")
      ->delimiter(',');
}

void add_from(CLI::App& verb, CLI::Option* scenario, ConfigSource& source) {
  scenario->required(false);
  verb.add_option("--from", source.files,
                  "Config or launch script of a training program, read in place of a scenario, and "
                  "the files that it names (docs/import-config.md)")
      ->delimiter(',');
  add_answers(verb, source.answers);
}

std::string scenario_from(const ConfigSource& source, bool names_scenario) {
  if (source.files.empty()) {
    if (!names_scenario)
      throw file_error("", "scenario", "is required", "a scenario file, or --from CONFIG");
    return "";
  }
  if (names_scenario)
    throw file_error("", "--from", "stands in for a scenario file", "name one of them");
  const ImportedConfig config = imported_config(source.files, source.answers);
  tell_import(config);
  // Errors in the imported scenario name this as their file.
  const std::string name = "scenario of " + source.files.front();
  keep_text(name, askable_scenario_text(config));
  return name;
}

// Prints a summary line, then the keys that are approximated or left out, the assumptions, and the
// open questions.
void tell_import(const ImportedConfig& config) {
  std::map<KeyFate, int> counts;
  for (const KeyAccount& account : config.keys) ++counts[account.fate];
  note(fmt::format(
      "{}: {}; {} keys: {} mapped, {} without effect, {} approximated, {} asked, {} unknown",
      fmt::join(config.files, ", "), config.format, config.keys.size(), counts[KeyFate::mapped],
      counts[KeyFate::without_effect], counts[KeyFate::approximated], counts[KeyFate::asked],
      counts[KeyFate::unknown]));
  for (const KeyAccount& account : config.keys) {
    const Diagnostic here{account.where, account.key, account.meaning, ""};
    if (account.fate == KeyFate::approximated) note("note: " + to_string(here));
    if (account.fate == KeyFate::refused) note("note: left out: " + to_string(here));
    if (account.fate == KeyFate::unknown) note("note: left out: " + to_string(here));
  }
  for (const std::string& assumed : config.assumptions) note("assumed: " + assumed);
  for (const std::string& text : config.notes) note("note: " + text);
  for (const OpenQuestion& question : config.asked)
    note(fmt::format("asked: {} ({})", question.field, question.option));
}

}  // namespace lockstep
