// A user's mistakes and their places. Every reader collects Diagnostics and throws them all at once
// as one ConfigError. The command line prints it as `file:line:col: field: what; hint` (exit code
// 2).
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

struct Location {
  std::string file;
  int line = 0;  // 1-based; 0 = the file as a whole
  int column = 0;
};

struct Diagnostic {
  Location where;
  std::string field;    // dotted path, "strategies[1].fsdp.wrap"; empty for the file as a whole
  std::string message;  // what is wrong
  std::string hint;     // "allowed: a, b, c; did you mean 'b'?"; may be empty
};

// "file:line:col: field: message; hint"
std::string to_string(const Diagnostic& diagnostic);

// A mistake in the user's input. what() lists all diagnostics, one per line.
class ConfigError : public std::runtime_error {
 public:
  explicit ConfigError(std::vector<Diagnostic> diagnostics);
  explicit ConfigError(Diagnostic diagnostic);
  const std::vector<Diagnostic>& diagnostics() const { return diagnostics_; }

 private:
  std::vector<Diagnostic> diagnostics_;
};

// A ConfigError about a file (or, with an empty name, the command line) as a whole.
ConfigError file_error(std::string file, std::string field, std::string message,
                       std::string hint = "");

// ASCII letters only.
std::string lower_case(std::string_view text);

// 'text' in quotes for a message, cut to about 60 bytes, without control characters.
std::string in_quotes(std::string_view text);

// "allowed: a, b, c; did you mean 'b'?" for a word that is not in `allowed`. A suggestion is made
// only if one is close by edit distance. Long lists are cut to the nearest dozen, sorted, and say
// how many more there are.
std::string allowed_hint(std::string_view word, const std::vector<std::string>& allowed);

}  // namespace lockstep
