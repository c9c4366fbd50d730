// What a reader of the answers should know of the question: options that change nothing, what a
// profile does not answer, and what the device does not have. A what-if study would take any of
// them for a finding.
#pragma once

#include <string>
#include <vector>

#include "points/points.hpp"

namespace lockstep {

// Sentences, each once, in the order of the points. An option is named when it is not at its
// default and changes none of the points that it is meant for.
std::vector<std::string> remarks(const Scenario& scenario, const std::vector<Point>& points);

}  // namespace lockstep
