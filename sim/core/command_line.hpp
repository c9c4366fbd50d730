// Parses the command line of a program with CLI11, so that help and mistakes end every program of
// the project in the same manner. main() of a program declares its options on a CLI::App and calls
// this function first.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <sstream>

#include "core/output.hpp"

namespace lockstep {

// Returns nothing if the program has work to do. Otherwise the help or the version has been printed
// on stdout, or the mistake on stderr, and the result is the exit code: 0 after help and version, 2
// after a mistake. Throws OutputError if stdout cannot be written.
inline std::optional<int> parse_command_line(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {  // CLI11 also reports help and version by an exception
    std::ostringstream out;
    const bool mistake = app.exit(error, out) != 0;
    print(out.str());
    return mistake ? 2 : 0;
  }
}

}  // namespace lockstep
