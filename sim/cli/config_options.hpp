// Options of verbs that ask with the config of a training program.
#pragma once

#include <CLI/CLI.hpp>

#include "training_configs/imported_config.hpp"

namespace lockstep {

// --model, --platform, --gpus (unless the verb has its own), --sequence, --micro, --global, --format, --leave-out.
void add_answers(CLI::App& verb, ConfigAnswers& answers);

// A config of a training program in the place of a scenario file.
struct ConfigSource {
  std::vector<std::string> files;
  ConfigAnswers answers;
};

// --from and what add_answers adds. `scenario` is the option that it stands in for.
void add_from(CLI::App& verb, CLI::Option* scenario, ConfigSource& source);

// The name under which the scenario of `source` is read; "" = none was asked for. Throws ConfigError, also where
// neither a scenario nor a config is named, or both are.
std::string scenario_from(const ConfigSource& source, bool names_scenario);

// On stderr: what was understood, key by key where it matters.
void tell_import(const ImportedConfig& config);

}  // namespace lockstep
