// Options of verbs that accept the config of a training program instead of a scenario. Add them in
// the verb's declaration.
#pragma once

#include <CLI/CLI.hpp>

#include "training_configs/imported_config.hpp"

namespace lockstep {

// Adds --model, --platform, --gpus (unless the verb has its own), --sequence, --micro, --global,
// --format, --leave-out.
void add_answers(CLI::App& verb, ConfigAnswers& answers);

// A config of a training program that replaces a scenario file.
struct ConfigSource {
  std::vector<std::string> files;
  ConfigAnswers answers;
};

// Adds --from and the options of add_answers. `scenario` is the option that --from replaces.
void add_from(CLI::App& verb, CLI::Option* scenario, ConfigSource& source);

// The name under which the scenario of `source` is read; "" = no config is given. Throws
// ConfigError, also if neither or both of a scenario and a config are given.
std::string scenario_from(const ConfigSource& source, bool names_scenario);

// Prints on stderr how each key of the config was understood.
void tell_import(const ImportedConfig& config);

}  // namespace lockstep
