// Runs the built program as a user would, and returns output and exit code. Use it in tests of the
// command line.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "test_folder.hpp"

namespace lockstep {

struct Outcome {
  int code = -1;    // exit code; 128 + signal when a signal ended it
  std::string out;  // standard output
  std::string err;  // standard error
  double seconds = 0;
};

// `lockstep ARGUMENTS`, with empty standard input; killed after `limit` seconds (code 137).
Outcome lockstep(const std::vector<std::string>& arguments, double limit = 30);
// `sh -c COMMAND`, where "$LOCKSTEP" is the program.
Outcome shell(const std::string& command, double limit = 30);

// A complete small scenario with the fields of `more` added or replaced.
std::string scenario_text(const std::string& more);

}  // namespace lockstep
