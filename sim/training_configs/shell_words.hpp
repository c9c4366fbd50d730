// Splits shell scripts into statements of words: the lexer of shell_script.cpp. Each part of a word
// has its kind of quotes, because expansion and splitting depend on them. Nothing is executed.
#pragma once

#include <string>
#include <vector>

#include "core/errors.hpp"

namespace lockstep {

// A part of a word. Its quotes determine whether it is expanded and split.
struct ShellPart {
  // none: expanded and split. weak (""): expanded. strong (''): neither.
  enum class Quotes { none, weak, strong };
  std::string text;
  Quotes quotes = Quotes::none;
};

// A word, for example --out="$DIR"/'a b', which has four parts.
struct ShellWord {
  std::vector<ShellPart> parts;
  // The elements of NAME=( ... ); `parts` is then `NAME=`.
  std::vector<ShellWord> elements;
  bool is_array = false;
  Location where;

  // The text of a word that has a single unquoted part; otherwise "".
  std::string plain() const;
};

// A simple command, or a keyword of a compound command and the words after it.
struct ShellStatement {
  std::vector<ShellWord> words;
  // The text that the command gets by a heredoc (<<).
  std::string heredoc;
  // The operator before the statement, for example "&&", "||", "|" or ";"; "" at a new line.
  std::string joint;
  Location where;
};

// Splits a script into statements. Throws ConfigError for unclosed quotes or brackets, and for too
// long a script.
std::vector<ShellStatement> shell_statements(const std::string& text, const std::string& path);

}  // namespace lockstep
