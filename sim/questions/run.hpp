// The record of a whole scenario (`run`), and its part of the report.
#pragma once

#include "points/simulate.hpp"
#include "results/record.hpp"
#include "results/report.hpp"
#include "scenario/scenario.hpp"

namespace lockstep {

// The whole record: expand (with the anchors' scale, if the scenario has anchors), simulate,
// summarise, suggest what fits where something does not.
ResultRecord run_scenario(const Scenario& scenario, const RunOptions& options = {});

// Throws ConfigError when the scenario's file cannot be read again.
ReportChapter report_chapter(const Scenario& scenario, ResultRecord record,
                             const RunOptions& options = {});

}  // namespace lockstep
