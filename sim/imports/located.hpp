// Errors about a place in an imported file.
#pragma once

#include <string>
#include <utility>

#include "core/errors.hpp"

namespace lockstep {

struct Place {
  std::string file;
  int line = 1;
  int column = 1;
  std::string field = {};
};

inline ConfigError located_error(const Place& place, std::string message, std::string hint = "") {
  Diagnostic diagnostic;
  diagnostic.where = {place.file, place.line, place.column};
  diagnostic.field = place.field;
  diagnostic.message = std::move(message);
  diagnostic.hint = std::move(hint);
  return ConfigError(std::move(diagnostic));
}

}  // namespace lockstep
