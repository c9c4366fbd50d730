// Collector of configuration errors. A check adds each error and continues, so the user sees
// several errors of a scenario in one run, in the order in which they were found.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/errors.hpp"

namespace lockstep {

// The errors found so far. Not thread-safe; lives for one expansion.
class Misfits {
 public:
  // Adds an error at `where`. An equal error at the same place is added only once.
  void add(const Location& where, std::string field, std::string message, std::string hint = "") {
    Diagnostic diagnostic{where, std::move(field), std::move(message), std::move(hint)};
    const auto is_same = [text = to_string(diagnostic)](const Diagnostic& other) {
      return to_string(other) == text;
    };
    if (std::none_of(list_.begin(), list_.end(), is_same)) list_.push_back(std::move(diagnostic));
  }
  // Throws one ConfigError with all errors, if there are any.
  void throw_if_any() const {
    if (!list_.empty()) throw ConfigError(list_);
  }

  // Runs `action`, which reads or uses a file that the scenario names in `field` at `where`.
  // Collects the errors of a ConfigError; other exceptions pass through.
  template <class Action>
  void attempt(const Location& where, const char* field, Action&& action) {
    try {
      action();
    } catch (const ConfigError& error) {
      for (Diagnostic diagnostic : error.diagnostics()) {
        list_.push_back(asked_for(where, field, std::move(diagnostic)));
      }
    }
  }

 private:
  // Gives an error of `action` a place that helps the user, in two cases.
  static Diagnostic asked_for(const Location& where, const char* field, Diagnostic diagnostic) {
    // 1. The error has no line number, for example if a file is missing. The name in the scenario
    // is then at fault: the error gets that place and field, and the message gets the file's name.
    if (diagnostic.where.line == 0) {
      const std::string& file = diagnostic.where.file;
      const std::string quoted = in_quotes(file);
      if (!file.empty() && diagnostic.message.find(quoted) == std::string::npos) {
        diagnostic.message = fmt::format("{} {}", quoted, diagnostic.message);
      }
      diagnostic.where = where;
      diagnostic.field = field;
    } else if (diagnostic.where.file != where.file) {
      // 2. The error is inside the other file. That file may be correct by itself but unsuitable
      // for this scenario, so the hint names the scenario's line.
      if (!diagnostic.hint.empty()) diagnostic.hint += "; ";
      diagnostic.hint += fmt::format("asked for in {}:{}", where.file, where.line);
    }
    return diagnostic;
  }

  std::vector<Diagnostic> list_;
};

}  // namespace lockstep
