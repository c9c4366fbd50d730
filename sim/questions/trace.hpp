// Traces of simulated steps: points are simulated once more under an observer. `run --trace` writes
// some steps to files for Perfetto and HolisticTraceAnalysis; `report` draws one step of each
// strategy.
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

// kineto: PyTorch profiler's JSON. chakra: execution traces of MLCommons (results/chakra.hpp).
enum class TraceFormat { kineto, chakra };

// The points, ranks and steps to trace, and the file.
struct TraceOptions {
  // One file with everything, compressed if its name ends in .gz; or a folder, in which each point
  // gets a folder with one file per rank.
  std::string path;
  std::vector<std::string> strategies{};  // labels; empty = all
  std::vector<int> gpus{};                // empty = the largest GPU count of the strategy
  std::vector<int> ranks{};               // as in TimelineOptions
  // First and last step. Absent = three steps, or fewer if a step has several micro-batches: the
  // last simulated ones if the prediction found a steady state, otherwise the ones after the first.
  std::optional<std::pair<int, int>> steps{};
  // Chakra files are written to a folder only, for the first of the steps, as chakra.RANK.et.
  TraceFormat format = TraceFormat::kineto;
};

// Checks options before hours of simulation. Throws ConfigError if the scenario lacks a strategy,
// GPU count or rank, and OutputError if the file cannot be written.
void check_trace(const Scenario& scenario, const TraceOptions& options);

// The result of write_traces().
struct WrittenTraces {
  std::vector<std::string> files;
  // Chakra only: sentences about asynchronous ranks that do not reach the end of the step.
  std::vector<std::string> left_out;
};

// Simulates the selected points of `record` once more and writes their traces. Throws OutputError
// if a file cannot be written, std::runtime_error if a simulation fails.
WrittenTraces write_traces(const Scenario& scenario, const TraceOptions& options,
                           const ResultRecord& record, const RunOptions& run = {});

// Simulates `points` once more and returns one step of the first rank of each, as
// json_of(StepTimeline) for the page. The step belongs to the steady state if `record` has one,
// otherwise it is one of the first. All timelines together have a few thousand slices at most.
// Points without a prediction, and points whose simulation fails, are left out.
std::vector<nlohmann::ordered_json> step_timelines(std::vector<Point> points,
                                                   const ResultRecord& record, int workers);

}  // namespace lockstep
