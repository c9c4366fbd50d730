// `--emit`: files that start a scenario's training.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "scenario/scenario.hpp"

namespace lockstep {

struct EmitOptions {
  std::vector<std::string> formats;  // of emit_formats()
  std::string folder;                // "" = print, one format alone
  std::string strategy;              // label; "" = the scenario's only one
  int gpus = 0;                      // 0 = the scenario's only count
};

// --emit FORMAT,... and -o FOLDER.
void add_emit(CLI::App& verb, EmitOptions& options);

// Writes or prints the files of one point of the scenario; the exit code. Simulates the point where a format
// states how long the run takes. Throws ConfigError.
int emit(const Scenario& scenario, const EmitOptions& options);

}  // namespace lockstep
