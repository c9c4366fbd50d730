// The command that a launch script would run: its words after expansion. Used to import the
// arguments of a launch script. Nothing is executed and no file is read. Values that only a running
// shell knows ($(hostname), the environment) stay as they are written.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/errors.hpp"
#include "core/yaml.hpp"

namespace lockstep {

struct ScriptArgument {
  std::string text;
  Location where;
};

struct LaunchScript {
  std::vector<ScriptArgument> command;           // with the most options
  std::map<std::string, std::string> documents;  // files that heredocs would write
  std::vector<std::string> notes;                // branches that could not be decided
};

// Evaluates assignments, arrays, defaults, arithmetic, tests and the first round of loops. Throws
// ConfigError.
LaunchScript launch_script(const std::string& text, const std::string& path);

// The command's options as a map: `--micro-batch-size 4` is micro_batch_size: 4, a switch is true.
Node options_of(const LaunchScript& script, const std::string& path);

}  // namespace lockstep
