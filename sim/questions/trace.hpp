// `run --trace`: the timeline of a few steps, in files that Perfetto and HolisticTraceAnalysis open.
#pragma once

#include <string>
#include <vector>

#include "points/simulate.hpp"
#include "points/timeline.hpp"
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

// A point's answer in the record; null = it failed. And what carried it out: a second look at the
// point must have the same.
const Prediction* prediction_of(const ResultRecord& record, const Point& point);
Engine engine_of(const Prediction& predicted);

// What can be seen before anything is simulated: throws ConfigError at a strategy, a GPU count or a
// rank that the scenario has not, OutputError when the file cannot be written.
void check_trace(const Scenario& scenario, const TraceOptions& options);

struct WrittenTraces {
  std::vector<std::string> files;
  // Of Chakra traces: asynchronous ranks that do not come to the end of the step, as sentences.
  std::vector<std::string> left_out;
};

// Simulates the points of `record` that are asked for once more, and writes what it sees.
// Throws OutputError; std::runtime_error when a simulation fails.
WrittenTraces write_traces(const Scenario& scenario, const TraceOptions& options,
                           const ResultRecord& record, const RunOptions& run = {});

}  // namespace lockstep
