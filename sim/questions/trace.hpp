// Traces of simulated steps: an observer watches while points are simulated one more time. `run
// --trace` writes some steps to files for Perfetto and HolisticTraceAnalysis; `report` draws one
// step of each strategy.
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

// Which points, ranks and steps are traced, and to which file.
struct TraceOptions {
  // One file with everything, compressed if its name ends in .gz; or a folder, which gets a
  // subfolder for each point with one file per rank.
  std::string path;
  std::vector<std::string> strategies{};  // labels; empty = all
  std::vector<int> gpus{};                // empty = the largest GPU count of the strategy
  std::vector<int> ranks{};               // as in TimelineOptions
  // First and last step. If absent: three steps, or fewer if a step has several micro-batches. They
  // are the last simulated steps if the prediction found a steady state, otherwise steps 1, 2, ...
  // (the first is step 0).
  std::optional<std::pair<int, int>> steps{};
  // Chakra needs a folder as `path`, and writes only the first of the steps, as chakra.RANK.et.
  TraceFormat format = TraceFormat::kineto;
};

// Checks options before simulations that may take hours. Throws ConfigError if the scenario lacks a
// strategy, GPU count or rank, or if Chakra gets no folder. Throws OutputError if the folder of a
// single file is not writable.
void check_trace(const Scenario& scenario, const TraceOptions& options);

// The result of write_traces().
struct WrittenTraces {
  std::vector<std::string> files;
  // Sentences about asynchronous ranks that do not reach the end of the step; only with Chakra.
  std::vector<std::string> left_out;
};

// Simulates the selected points one more time and writes their traces; leaves out points without a
// prediction in `record`. Throws OutputError if a file cannot be written, and std::runtime_error if
// a simulation fails.
WrittenTraces write_traces(const Scenario& scenario, const TraceOptions& options,
                           const ResultRecord& record, const RunOptions& run = {});

// Simulates `points` one more time and returns one step of the first rank of each, as
// json_of(StepTimeline) for the page. The step belongs to the steady state if `record` found one,
// otherwise it is one of the first. All timelines together have at most some thousand slices.
// Leaves out points without a prediction and points whose simulation fails.
std::vector<nlohmann::ordered_json> step_timelines(std::vector<Point> points,
                                                   const ResultRecord& record, int workers);

}  // namespace lockstep
