// Files that start a scenario's training: the inverse of imported_config.hpp. Used by `export
// --emit` and `recommend --emit`; docs/import-config.md lists the formats.
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

// A file in the making; the caller writes it.
struct EmittedFile {
  // E.g. "ds_config.json".
  std::string name;
  std::string text;
  // Options that the format cannot express, and values that it leaves open.
  std::vector<std::string> notes;
};

// Names of --emit, in the order of the docs.
const std::vector<std::string>& emit_formats();

// Throws ConfigError for an unknown format, or a strategy or model that the format cannot express.
EmittedFile emitted_config(const std::string& format, const EmitQuestion& question);

}  // namespace lockstep
