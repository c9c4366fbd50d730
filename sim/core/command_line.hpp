// Parses the command line of a program with CLI11; help and mistakes end every program alike. Call
// it at the start of main()'s work.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <sstream>

#include "core/output.hpp"

namespace lockstep {

// Returns nothing if the program has work to do. Otherwise help, version or a mistake was printed,
// and the exit code is returned. Throws OutputError.
inline std::optional<int> parse_command_line(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {  // help and version, too
    std::ostringstream out;
    const bool mistake = app.exit(error, out) != 0;
    print(out.str());
    return mistake ? 2 : 0;
  }
}

}  // namespace lockstep
