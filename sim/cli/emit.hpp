// The option `--emit`: writes files that start a scenario's training (DeepSpeed, accelerate,
// sbatch, ...). Used by `export` and `recommend`.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "scenario/scenario.hpp"

namespace lockstep {

// The user's choice of files, and of the point for which they are written.
struct EmitOptions {
  std::vector<std::string> formats;  // values of emit_formats()
  std::string folder;                // "" = print, which is possible for one format only
  std::string strategy;              // label of a strategy; "" if the scenario has only one
  int gpus = 0;                      // 0 if the scenario has only one GPU count
};

// Adds --emit FORMAT,... and -o FOLDER.
void add_emit(CLI::App& verb, EmitOptions& options);

// Writes or prints the files for one point of the scenario, and returns the exit code. Simulates
// the point if a format states the duration of the run and the scenario gives its length. Throws
// ConfigError if the options do not select exactly one point, or give several formats without a
// folder.
int emit(const Scenario& scenario, const EmitOptions& options);

}  // namespace lockstep
