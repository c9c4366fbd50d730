// Parts of the report's page that are no charts of Chart.js: timelines, and what lives at the peak.
#pragma once

#include <string>

#include "results/report_answer.hpp"

namespace lockstep {

std::string panel_html(const std::string& title, const std::string& content);
std::string answer_html(const Answer& told);

// Both "" where there is nothing to show.
std::string timelines_html(const ReportChapter& chapter, std::size_t number);
std::string peak_html(const ReportChapter& chapter);

}  // namespace lockstep
