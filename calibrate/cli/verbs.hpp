// The commands of lockstep-calibrate, each in one .cpp without LibTorch. Work that needs LibTorch
// runs in worker processes, or behind the headers of probes/ and runs/. Results go to stdout, all
// other output to stderr. Exit codes: 0 success, 1 an error of the program or of a rank, 2 wrong
// input, 5 a rank was killed or had no memory, 74 a file could not be written, 130 interrupted.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

namespace lockstep {

// The function of the command that the user chose. The command sets it, and main() calls it.
using Chosen = std::function<int()>;

// The command line after the program's name. Ranks of a training run are started with the same
// arguments.
using Arguments = std::vector<std::string>;

void add_layers(CLI::App& app, Chosen& chosen);             // `calibrate`
void add_collectives(CLI::App& calibrate, Chosen& chosen);  // `calibrate collectives`
void add_train(CLI::App& app, Chosen& chosen, const Arguments& arguments);

// A hidden command, by which other commands start a rank's task in a separate process.
void add_worker(CLI::App& app, Chosen& chosen);
// The arguments with which this executable runs the worker `name`.
std::vector<std::string> worker_arguments(const std::string& name,
                                          const std::vector<std::string>& rest);

}  // namespace lockstep
