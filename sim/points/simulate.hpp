// Simulation of points in child processes, with a result or a reason of failure for each point. A
// point that crashes or hangs does not affect the others.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/errors.hpp"
#include "points/points.hpp"
#include "strategies/strategy.hpp"

namespace lockstep {

// Progress of a call of simulate() or simulate_each(), for a progress line.
struct RunProgress {
  std::size_t done = 0, all = 0;  // points
  // The point that has run longest, and the share of its steps that is simulated, 0 to 1.
  std::string point{};
  double fraction = 0;
};

struct RunOptions {
  int workers = 0;  // child processes at the same time; 0 = one per core
  // Called in the calling thread, several times a second and after each point.
  std::function<void(const RunProgress&)> progress{};
};

// The answer of one point: the strategy's result, or the reason of a failure that the user's input
// did not cause (a crash, a lack of memory, no sign of life).
struct Outcome {
  StrategyResult result;
  std::optional<std::string> failure;
};

// Simulates every point in a child process. A point with stragglers is simulated again without
// them. A point with several seeds is simulated once for each seed, but not further if the second
// seed gives the times of the first. Asynchronous workers with random steps get four seeds if the
// scenario gives no number and the simulation is short. Throws ConfigError, located at the
// strategy's entry, if a strategy refuses its options.
std::vector<Outcome> simulate_each(const std::vector<Point>& points,
                                   const RunOptions& options = {});

// Simulates every point once, without the repetitions of simulate_each(). Throws ConfigError like
// simulate_each(), and std::runtime_error if any simulation failed.
std::vector<StrategyResult> simulate(const std::vector<Point>& points,
                                     const RunOptions& options = {});

// Returns the memory that simulations would report, without simulating. Throws ConfigError like
// simulate_each().
std::vector<MemoryUse> memory_of(const std::vector<Point>& points);

// Texts in which child processes return their results.
std::string to_wire(const StrategyResult& result);
std::string refusal_to_wire(const ConfigError& refusal);
// Reads either text. The errors of a refusal are appended to `refused`; the result is then empty.
StrategyResult from_wire(const std::string& text, std::vector<Diagnostic>& refused);

}  // namespace lockstep
