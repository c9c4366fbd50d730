// What `lockstep acceptance` can be told.
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
