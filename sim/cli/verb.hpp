// A verb is a subcommand such as `run`. Each verb is one .cpp file with the declaration of its
// options, its action, and a Verb object that registers both, in a namespace of its own
// (lockstep::export_verb). There is no list of verbs: main.cpp calls declare_verbs(), which
// declares all verbs that have registered.
//
//   Choice declare(CLI::App& app) {
//     const auto file = std::make_shared<std::string>();
//     CLI::App& verb = *app.add_subcommand("export", "Print a scenario with every default");
//     verb.add_option("scenario", *file, "Scenario file")->required();
//     add_examples(verb, {"my.yaml > every-default.yaml"});
//     return {&verb, [file] { return export_scenario(*file); }};
//   }
//   const Verb verb{VerbGroup::formats, declare};
//
// CLI11 writes into the variables while it parses, so a shared_ptr owns them, and the action holds
// a copy of that pointer.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.hpp"

namespace lockstep {

// The heading under which --help lists a verb: Questions, Files, Measurements.
enum class VerbGroup { questions, formats, measurements };

// A declared verb, and its action. main() calls the action after parsing the command line; its
// result is the exit code of the program.
struct Choice {
  CLI::App* verb = nullptr;
  std::function<int()> act;
};

// Registers a verb before main(), as a static object of the verb's .cpp file.
class Verb {
 public:
  using Declare = Choice (*)(CLI::App& app);
  Verb(VerbGroup group, Declare declare);
};

// Declares all registered verbs in `app`, sorted by group and name.
// REQUIRES: called only once.
std::vector<Choice> declare_verbs(CLI::App& app);

// The subset of --json, --csv, --markdown and --openmetrics that a verb has. A user may give at
// most one of these options.
enum class Formats { json, json_csv, csv_markdown, tables, all };
// Functions that add options which several verbs share, with the same help everywhere.
void add_formats(CLI::App& verb, CommonOptions& options, Formats formats);
void add_settings(CLI::App& verb, CommonOptions& options);  // --set
void add_workers(CLI::App& verb, CommonOptions& options);   // -j, --jobs
// Adds example command lines to the verb's help; each is the text after `lockstep VERB `.
void add_examples(CLI::App& verb, const std::vector<std::string>& examples);

}  // namespace lockstep
