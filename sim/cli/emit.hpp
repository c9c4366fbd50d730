// The option `--emit`: writes files that start a scenario's training (DeepSpeed, accelerate,
// sbatch, ...). Used by `export` and `recommend`.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "scenario/scenario.hpp"

namespace lockstep {

// The user's choice of files, and of the point that they are for.
struct EmitOptions {
  std::vector<std::string> formats;  // of emit_formats()
  std::string folder;                // "" = print; then there may be one format only
  std::string strategy;              // label; "" = the scenario's only one
  int gpus = 0;                      // 0 = the scenario's only count
};

// Adds --emit FORMAT,... and -o FOLDER.
void add_emit(CLI::App& verb, EmitOptions& options);

// Writes or prints the files of one point of the scenario, and returns the exit code. Simulates the
// point if a format states the duration of the run. Throws ConfigError.
int emit(const Scenario& scenario, const EmitOptions& options);

}  // namespace lockstep
