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

// A word of the command, with its place in the script.
struct ScriptArgument {
  std::string text;
  Location where;
};

// The outcome of reading a script.
struct LaunchScript {
  // The command with most options, which is taken for the launch.
  std::vector<ScriptArgument> command;
  // Heredocs, i.e. files that the script would write, by "line N".
  std::map<std::string, std::string> documents;
  // Branches that could not be decided.
  std::vector<std::string> notes;
};

// Evaluates assignments, arrays, defaults, arithmetic, tests and the first round of loops. Throws
// ConfigError for a script that is no script, grows without bound, or passes no options.
LaunchScript launch_script(const std::string& text, const std::string& path);

// The command's options as a map: `--micro-batch-size 4` is micro_batch_size: 4, a switch is true.
Node options_of(const LaunchScript& script, const std::string& path);

}  // namespace lockstep
