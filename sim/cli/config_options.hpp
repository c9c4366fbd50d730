// Options of verbs (subcommands) that accept the config of a training program in place of a
// scenario (`check`, `run`, `recommend`, ...: `--from train.sh`), and of the verb `import-config`.
// The declaration of a verb adds them. docs/import-config.md lists the training programs.
#pragma once

#include <CLI/CLI.hpp>

#include "training_configs/imported_config.hpp"

namespace lockstep {

// Adds --model, --platform, --gpus (unless the verb has its own), --sequence, --micro, --global,
// --format and --leave-out, which answer the questions that a config leaves open.
void add_answers(CLI::App& verb, ConfigAnswers& answers);

// A config of a training program that replaces a scenario file, and the files that it names.
struct ConfigSource {
  std::vector<std::string> files;
  ConfigAnswers answers;
};

// Adds --from and the options of add_answers(). `scenario` is the option that --from replaces.
void add_from(CLI::App& verb, CLI::Option* scenario, ConfigSource& source);

// Imports the config, prints tell_import(), and returns the name under which the scenario can be
// read; "" if no config is given. `names_scenario` says whether the user names a scenario file.
// Throws ConfigError if the config is wrong, or if the user gives neither or both.
std::string scenario_from(const ConfigSource& source, bool names_scenario);

// Prints notes: the number of keys by fate, each key that is approximated, left out or unknown,
// assumptions, and open questions.
void tell_import(const ImportedConfig& config);

}  // namespace lockstep
