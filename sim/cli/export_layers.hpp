// What every point of a scenario trains, for programs that build the same network with another
// library (calibrate/oracle). Nothing is simulated.
#pragma once

#include <string>

#include "scenario/scenario.hpp"

namespace lockstep {

std::string layers_json(const Scenario& scenario);

}  // namespace lockstep
