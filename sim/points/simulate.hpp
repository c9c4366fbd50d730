// Simulates points in child processes: an answer or a failure for every one.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/errors.hpp"
#include "points/points.hpp"
#include "strategies/strategy.hpp"

namespace lockstep {

struct RunProgress {
  std::size_t done = 0, all = 0;  // points
  std::string point{};            // the one that runs longest,
  double fraction = 0;            // and how far it is
};

struct RunOptions {
  int workers = 0;  // child processes at a time; 0 = one per core
  std::function<void(const RunProgress&)> progress{};
};

// Of one point: what its strategy found, or why a simulation failed that is no fault of the input.
struct Outcome {
  StrategyResult result;
  std::optional<std::string> failure;
};

// Simulates every point in a child process, and once more without its stragglers and with each other
// seed where it has such. Throws ConfigError, located at the strategy entry, when a strategy refuses
// its options.
std::vector<Outcome> simulate_each(const std::vector<Point>& points,
                                   const RunOptions& options = {});

// Every point once, where every point counts: throws std::runtime_error when one failed.
std::vector<StrategyResult> simulate(const std::vector<Point>& points,
                                     const RunOptions& options = {});

// What memory the same would find, without simulating. Throws ConfigError likewise.
std::vector<MemoryUse> memory_of(const std::vector<Point>& points);

std::string to_wire(const StrategyResult& result);
std::string refusal_to_wire(const ConfigError& refusal);
// A refusal's diagnostics go to `refused`; the result is empty then.
StrategyResult from_wire(const std::string& text, std::vector<Diagnostic>& refused);

}  // namespace lockstep
