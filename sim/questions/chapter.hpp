// A scenario's part of the report: its record, what its measured rows say, and its text.
#pragma once

#include "points/simulate.hpp"
#include "results/report.hpp"
#include "scenario/scenario.hpp"

namespace lockstep {

// Throws ConfigError when the scenario's file cannot be read again.
ReportChapter report_chapter(const Scenario& scenario, ResultRecord record,
                             const RunOptions& options = {});

}  // namespace lockstep
