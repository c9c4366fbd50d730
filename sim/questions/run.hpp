// The question of `run`: the predictions of a whole scenario, and its chapter of the report. Other
// commands (for example `compare`, `serve`, `report`) start from the same record.
#pragma once

#include "points/simulate.hpp"
#include "results/record.hpp"
#include "results/report.hpp"
#include "scenario/scenario.hpp"

namespace lockstep {

// Predicts all points of the scenario: expands it (with the factors of its anchors), simulates,
// computes predictions, and then adds advice, remarks, and suggestions for the first 16 points that
// do not fit into memory. A point that fails becomes an element of record.failures. Throws
// ConfigError for errors of the input, and std::runtime_error if the simulation of an anchor fails.
ResultRecord run_scenario(const Scenario& scenario, const RunOptions& options = {});

// Adds to a record the parts that only the report shows: the text of the scenario's file, measured
// rows, memory curves and the timeline of a step. Simulates the largest point of each strategy one
// more time. Throws ConfigError if the scenario's file cannot be read.
ReportChapter report_chapter(const Scenario& scenario, ResultRecord record,
                             const RunOptions& options = {});

}  // namespace lockstep
