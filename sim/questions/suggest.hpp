// What would fit where something does not: each suggestion is tried before it is made.
#pragma once

#include <string>
#include <vector>

#include "points/points.hpp"
#include "scenario/scenario.hpp"

namespace lockstep {

// Up to three changes to the point, least invasive first, each of which brings the predicted peak
// under the device's memory. Empty when none of the known ones does.
std::vector<std::string> suggest_what_fits(const Scenario& scenario, const Point& point);

}  // namespace lockstep
