// Shell scripts as statements of words: the lexer under shell_script.cpp. Quotes are kept with each
// part of a word, because expansion and splitting depend on them. Nothing is ever executed.
#pragma once

#include <string>
#include <vector>

#include "core/errors.hpp"

namespace lockstep {

// A part of a word. Its quotes decide whether it is expanded and split.
struct ShellPart {
  // none: expanded and split. weak, "": expanded. strong, '': neither.
  enum class Quotes { none, weak, strong };
  std::string text;
  Quotes quotes = Quotes::none;
};

// A word, e.g. --out="$DIR"/'a b', which has three parts.
struct ShellWord {
  std::vector<ShellPart> parts;
  // The elements of NAME=( ... ), with `NAME=` as the word's parts.
  std::vector<ShellWord> elements;
  bool is_array = false;
  Location where;

  // The unquoted text of a word of one part; else "".
  std::string plain() const;
};

// A simple command, or one of the keywords of a compound command with the words behind it.
struct ShellStatement {
  std::vector<ShellWord> words;
  // The text that a heredoc (<<) gives to the command.
  std::string heredoc;
  // The operator before the statement: "&&", "||", "|", ";", ... or "" for a new line.
  std::string
      joint;  // what joins it to the one before: "&&", "||", "|", ";", ... or "" for a new line
  Location where;
};

// Splits a script into statements. Throws ConfigError for unclosed quotes or brackets, and for too
// long a script.
std::vector<ShellStatement> shell_statements(const std::string& text, const std::string& path);

}  // namespace lockstep
