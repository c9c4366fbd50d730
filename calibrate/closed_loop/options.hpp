// Options of `lockstep closed-loop` as texts. declare_closed_loop() fills them when the command
// line is parsed, and closed_loop_options() converts them.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "closed_loop/closed_loop.hpp"

namespace lockstep {

struct ClosedLoopText {
  ClosedLoopOptions options;
  std::string model, layers_time, collectives_time, max_error, participants = "100%";
  std::vector<std::string> slow_ranks;
  bool quick = false;
  const CLI::App* verb = nullptr;  // knows the options that the user gave
};

CLI::App* declare_closed_loop(CLI::App& app, ClosedLoopText& text);
ClosedLoopOptions closed_loop_options(const ClosedLoopText& text);  // throws ConfigError

}  // namespace lockstep
