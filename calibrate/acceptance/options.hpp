// Options of `lockstep acceptance` as texts. declare_acceptance() fills them when the command line
// is parsed, and acceptance_options() converts them.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "acceptance/acceptance.hpp"

namespace lockstep {

struct AcceptanceText {
  AcceptanceOptions options;
  std::string time_limit, unit_limit;
};

CLI::App* declare_acceptance(CLI::App& app, AcceptanceText& text);
AcceptanceOptions acceptance_options(const AcceptanceText& text);  // throws ConfigError

}  // namespace lockstep
