// Writes files that start a scenario's training with a training program: the inverse of
// imported_config.hpp. `export --emit` and `recommend --emit` use it. docs/import-config.md lists
// the formats.
#pragma once

#include <string>
#include <vector>

#include "points/points.hpp"

namespace lockstep {

// One point of a scenario, and the duration of its run.
struct EmitQuestion {
  const Scenario* scenario = nullptr;
  const Point* point = nullptr;
  // Upper end of the whole run's interval, in seconds; 0 = not known.
  double longest_seconds = 0;
};

// A file's name and text; the caller writes it.
struct EmittedFile {
  // For example "ds_config.json".
  std::string name;
  std::string text;
  // Options that the format cannot express, and values that it leaves open.
  std::vector<std::string> notes;
};

// The values of --emit, in the order of the docs.
const std::vector<std::string>& emit_formats();

// Throws ConfigError for an unknown format, or for a strategy, model or option that the format
// cannot express.
EmittedFile emitted_config(const std::string& format, const EmitQuestion& question);

}  // namespace lockstep
