// A verb of the command line is one .cpp: its declaration, what it does, and a Verb that registers
// it, in a namespace of its own (lockstep::export_verb). Nothing lists the verbs.
//
//   Choice declare(CLI::App& app) {
//     const auto file = std::make_shared<std::string>();
//     CLI::App& verb = *app.add_subcommand("export", "Print a scenario with every default written out");
//     verb.add_option("scenario", *file, "Scenario file")->required();
//     add_examples(verb, {"my.yaml > every-default.yaml"});
//     return {&verb, [file] { return export_scenario(*file); }};
//   }
//   const Verb verb{VerbGroup::formats, declare};
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.hpp"

namespace lockstep {

enum class VerbGroup { questions, formats, measurements };

// A verb as CLI11 knows it, and its action after the command line is read, which returns the exit
// code.
struct Choice {
  CLI::App* verb = nullptr;
  std::function<int()> act;
};

class Verb {
 public:
  using Declare = Choice (*)(CLI::App& app);
  Verb(VerbGroup group, Declare declare);
};

// All verbs, by group and name.
std::vector<Choice> declare_verbs(CLI::App& app);

// The subset of --json, --csv, --markdown, --openmetrics that the verb has; a user may give at most
// one of them.
enum class Formats { json, json_csv, csv_markdown, tables, all };
void add_formats(CLI::App& verb, CommonOptions& options, Formats formats);
void add_settings(CLI::App& verb, CommonOptions& options);  // --set
void add_workers(CLI::App& verb, CommonOptions& options);
// `examples`: the text after `lockstep VERB `.
void add_examples(CLI::App& verb, const std::vector<std::string>& examples);

}  // namespace lockstep
