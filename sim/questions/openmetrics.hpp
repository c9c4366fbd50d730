// Errors of prediction for a dashboard that scrapes a nightly run.
#pragma once

#include <string>
#include <vector>

#include "questions/validate.hpp"

namespace lockstep {

// OpenMetrics 1.0 text: a gauge for each figure of a summary, by group. Errors and coverage are
// fractions; coverage only where predictions have an interval.
std::string validation_openmetrics(const std::vector<ErrorSummary>& summaries);

}  // namespace lockstep
