// Finds and starts the measuring half. It is a program of its own, because LibTorch takes half a
// second to load.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

// Path of lockstep-calibrate: $LOCKSTEP_CALIBRATE, or beside this program in the build folder.
// Throws ConfigError when it was not built; `verb` is the verb that needs it.
std::string measuring_program(const std::string& verb);

// Becomes the measuring program, with the arguments that this program was started with. Throws as
// measuring_program() does, and std::runtime_error when it cannot be started.
[[noreturn]] void become_measuring_program(const std::string& verb);

struct ProgramEnd {
  int exit_code = 0;  // 128 + signal when a signal ended it
  std::string output;
};
// Runs it and waits; its stdout is captured, its stderr is ours. Throws std::runtime_error when it
// cannot be started.
ProgramEnd run_program(const std::string& program, const std::vector<std::string>& arguments);

}  // namespace lockstep
