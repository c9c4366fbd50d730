// Parts of the report's page that are no charts of Chart.js: timelines, and what lives at the peak.
#pragma once

#include <string>

#include "results/report.hpp"

namespace lockstep {

// Both "" where there is nothing to show.
std::string timelines_html(const ReportChapter& chapter, std::size_t number);
std::string peak_html(const ReportChapter& chapter);

}  // namespace lockstep
