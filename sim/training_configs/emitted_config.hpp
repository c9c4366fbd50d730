// Files that start a scenario's training: the inverse of imported_config.hpp. Used by `--emit`.
#pragma once

#include <string>
#include <vector>

#include "points/points.hpp"

namespace lockstep {

// One point of a scenario, and the duration of its run.
struct EmitQuestion {
  const Scenario* scenario = nullptr;
  const Point* point = nullptr;
  double longest_seconds = 0;  // of the whole run, the upper end of its interval; 0 = not known
};

struct EmittedFile {
  std::string name;  // "ds_config.json"
  std::string text;
  std::vector<std::string> notes;  // what the format cannot say
};

// Names of --emit, in the order of the docs.
const std::vector<std::string>& emit_formats();

// Throws ConfigError for an unknown format, or a strategy or model that the format cannot express.
EmittedFile emitted_config(const std::string& format, const EmitQuestion& question);

}  // namespace lockstep
