// One plain sentence: what limits a prediction, and what would help there.
#pragma once

#include <string>

#include "points/points.hpp"
#include "results/record.hpp"

namespace lockstep {

std::string bottleneck_sentence(const Scenario& scenario, const Prediction& prediction,
                                const Point& point);

}  // namespace lockstep
