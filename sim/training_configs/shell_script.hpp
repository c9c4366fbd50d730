// Finds the command that a launch script would run, as words after expansion. imported_config.cpp
// uses it to import the arguments of a launch script. Nothing is executed and no other file is
// read. Values that only a running shell knows ($(hostname), the environment) stay as written.
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
  // The first command with the most options, which is taken as the launch of the training.
  std::vector<ScriptArgument> command;
  // Texts of heredocs, which the script may write to files, by "line N".
  std::map<std::string, std::string> documents;
  // Notes on parts of the script that were not followed.
  std::vector<std::string> notes;
};

// Evaluates assignments, arrays, defaults, arithmetic, tests and the first round of loops. Throws
// ConfigError if the text is no script, if an expansion grows without bound, or if no command has
// options.
LaunchScript launch_script(const std::string& text, const std::string& path);

// The command's options as a map: `--micro-batch-size 4` becomes micro_batch_size: 4, and a switch
// becomes true. A program pretrain_*.py also becomes a key, because its name shows the model's
// family.
Node options_of(const LaunchScript& script, const std::string& path);

}  // namespace lockstep
