// Points simulated once more and watched: `run --trace` writes a few of their steps in files that
// Perfetto and HolisticTraceAnalysis open, the page of `lockstep report` draws one.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "points/simulate.hpp"
#include "results/record.hpp"
#include "scenario/scenario.hpp"

namespace lockstep {

enum class TraceFormat { kineto, chakra };

struct TraceOptions {
  // One file with everything, compressed if it ends in .gz; or a folder: one file a rank, in a
  // folder for each point.
  std::string path;
  std::vector<std::string> strategies{};  // labels; empty = all
  std::vector<int> gpus{};                // empty = the most that the strategy has
  std::vector<int> ranks{};               // as in TimelineOptions
  // Empty = three: those that the prediction stands for where it found a steady state, else those
  // after the first.
  std::optional<std::pair<int, int>> steps{};
  // Chakra: into a folder only, the first of the steps, RANK.et beside each other.
  TraceFormat format = TraceFormat::kineto;
};

// Checks before anything is simulated: throws ConfigError at a strategy, a GPU count or a rank that
// the scenario has not, OutputError when the file cannot be written.
void check_trace(const Scenario& scenario, const TraceOptions& options);

struct WrittenTraces {
  std::vector<std::string> files;
  // Chakra only: asynchronous ranks that do not come to the end of the step, as sentences.
  std::vector<std::string> left_out;
};

// Simulates the points of `record` that are asked for once more, and writes what it sees.
// Throws OutputError; std::runtime_error when a simulation fails.
WrittenTraces write_traces(const Scenario& scenario, const TraceOptions& options,
                           const ResultRecord& record, const RunOptions& run = {});

// A step of the first rank of each of `points` (of which `record` tells): of the steady state, or
// else one of the first. All together have a few thousand slices at most. Points that the record has
// not, or whose simulation fails, have none. Each is json_of(StepTimeline), as the page draws it.
std::vector<nlohmann::ordered_json> step_timelines(std::vector<Point> points,
                                                   const ResultRecord& record, int workers);

}  // namespace lockstep
