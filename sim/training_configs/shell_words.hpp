// Shell scripts as statements of words, and the values of their variables. Part of
// shell_script.cpp's implementation. Nothing is ever executed.
#pragma once

#include <string>
#include <vector>

#include "core/errors.hpp"

namespace lockstep {

// A part of a word. Its quotes decide whether it is expanded and split.
struct ShellPart {
  enum class Quotes { none, weak, strong };  // nothing, "", ''
  std::string text;
  Quotes quotes = Quotes::none;
};

struct ShellWord {
  std::vector<ShellPart> parts;
  std::vector<ShellWord> elements;  // of NAME=( ... ), with `NAME=` as its parts
  bool is_array = false;
  Location where;

  std::string plain() const;  // its unquoted text if it is one part; else ""
};

struct ShellStatement {
  std::vector<ShellWord> words;
  std::string heredoc;  // what << feeds it
  std::string
      joint;  // what joins it to the one before: "&&", "||", "|", ";", ... or "" for a new line
  Location where;
};

// Throws ConfigError for unclosed quotes or brackets, and for too long a script.
std::vector<ShellStatement> shell_statements(const std::string& text, const std::string& path);

}  // namespace lockstep
