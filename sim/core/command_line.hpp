// How every program reads its command line (CLI11): help and mistakes end it alike everywhere.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <sstream>

#include "core/output.hpp"

namespace lockstep {

// Nothing when there is work to do; otherwise the exit code, after help, version or a mistake was
// printed. Throws OutputError.
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
