// Collects what does not fit, so that one run of `check` shows all of it, in the order it was found.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/errors.hpp"

namespace lockstep {

class Misfits {
 public:
  // A misfit of one place is said once.
  void add(const Location& where, std::string field, std::string message, std::string hint = "") {
    Diagnostic diagnostic{where, std::move(field), std::move(message), std::move(hint)};
    const auto is_same = [text = to_string(diagnostic)](const Diagnostic& other) {
      return to_string(other) == text;
    };
    if (std::none_of(list_.begin(), list_.end(), is_same)) list_.push_back(std::move(diagnostic));
  }
  void throw_if_any() const {
    if (!list_.empty()) throw ConfigError(list_);
  }

  // Does something with a file that the scenario names at `where`, and collects what is wrong.
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
  static Diagnostic asked_for(const Location& where, const char* field, Diagnostic diagnostic) {
    // A message without a line of its own is about the name written in the scenario.
    if (diagnostic.where.line == 0) {
      const std::string& file = diagnostic.where.file;
      const std::string quoted = in_quotes(file);
      if (!file.empty() && diagnostic.message.find(quoted) == std::string::npos) {
        diagnostic.message = fmt::format("{} {}", quoted, diagnostic.message);
      }
      diagnostic.where = where;
      diagnostic.field = field;
    } else if (diagnostic.where.file != where.file) {
      // What the scenario asks for does not go with a file that is fine by itself.
      if (!diagnostic.hint.empty()) diagnostic.hint += "; ";
      diagnostic.hint += fmt::format("asked for in {}:{}", where.file, where.line);
    }
    return diagnostic;
  }

  std::vector<Diagnostic> list_;
};

}  // namespace lockstep
