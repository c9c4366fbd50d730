// Finds and starts the measuring half. It is a separate program, because loading LibTorch takes
// half a second.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

// Path of lockstep-calibrate: $LOCKSTEP_CALIBRATE, or its place in this program's build folder.
// Throws ConfigError if it was not built; `verb` is the command that needs it.
std::string measuring_program(const std::string& verb);

// Replaces this process by the measuring program, with the same arguments. Throws the ConfigError
// of measuring_program(), and std::runtime_error if the program cannot be started.
[[noreturn]] void become_measuring_program(const std::string& verb);

struct ProgramEnd {
  int exit_code = 0;  // 128 + signal if a signal ended it
  std::string output;
};
// Runs a program and waits for its end. Its stdout is captured, its stderr is ours. Throws
// std::runtime_error if the program cannot be started.
ProgramEnd run_program(const std::string& program, const std::vector<std::string>& arguments);

}  // namespace lockstep
