// Mistakes in a user's input and their places in a file. Every reader collects Diagnostics and
// throws them together as one ConfigError. The command line prints each on a line of its own,
// `file:line:col: field: message; hint`, and ends with exit code 2.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// A place in an input file. An empty file name stands for the command line.
struct Location {
  std::string file;
  int line = 0;    // 1-based; 0 = the file as a whole
  int column = 0;  // 1-based; 0 = the file as a whole
};

// One mistake: its place, the field, a message and a hint.
struct Diagnostic {
  Location where;
  std::string field;    // dotted path, "strategies[1].fsdp.wrap"; empty for the file as a whole
  std::string message;  // the mistake, "is out of range"
  std::string hint;     // "allowed: a, b, c; did you mean 'b'?"; may be empty
};

// "file:line:col: field: message; hint"
std::string to_string(const Diagnostic& diagnostic);

// A mistake in the user's input. `what()` lists all diagnostics, one per line.
class ConfigError : public std::runtime_error {
 public:
  explicit ConfigError(std::vector<Diagnostic> diagnostics);
  explicit ConfigError(Diagnostic diagnostic);
  const std::vector<Diagnostic>& diagnostics() const { return diagnostics_; }

 private:
  std::vector<Diagnostic> diagnostics_;
};

// A ConfigError about a whole file or, if the name is empty, about the command line.
ConfigError file_error(std::string file, std::string field, std::string message,
                       std::string hint = "");

// The text with ASCII capitals in lower case; other bytes are unchanged.
std::string lower_case(std::string_view text);

// The text in single quotes for a message: cut to about 60 bytes, without control characters.
std::string in_quotes(std::string_view text);

// "allowed: a, b, c; did you mean 'b'?" for a word that is not in `allowed`. The question is added
// only if an allowed word is close by edit distance. A long list is cut to the dozen nearest words,
// in alphabetical order, followed by "and N more". "" if `allowed` is empty.
std::string allowed_hint(std::string_view word, const std::vector<std::string>& allowed);

}  // namespace lockstep
