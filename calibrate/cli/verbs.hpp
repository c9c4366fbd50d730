// The verbs of lockstep-calibrate, one .cpp each, without LibTorch: work that needs it runs in
// worker processes or behind the plain headers of probes/ and runs/. Results go to stdout,
// everything else to stderr. Exit codes: 0 done, 1 a fault of ours or of a rank, 2 wrong input, 5 a
// rank was killed or had no memory, 74 something could not be written, 130 interrupted.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

namespace lockstep {

// Set by the verb that the command line names; main() calls it.
using Chosen = std::function<int()>;

// The command line after the program's name: ranks of a training run are started with the same.
using Arguments = std::vector<std::string>;

void add_layers(CLI::App& app, Chosen& chosen);             // `calibrate` and below it ...
void add_collectives(CLI::App& calibrate, Chosen& chosen);  // ... `collectives`
void add_train(CLI::App& app, Chosen& chosen, const Arguments& arguments);

// Hidden: the task of a rank in a process of its own, started by another verb.
void add_worker(CLI::App& app, Chosen& chosen);
// The arguments that make this executable run worker `name`.
std::vector<std::string> worker_arguments(const std::string& name,
                                          const std::vector<std::string>& rest);

}  // namespace lockstep
