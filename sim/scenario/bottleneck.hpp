// One plain sentence: what limits a prediction, and what would help there.
#pragma once

#include <string>

#include "results/record.hpp"
#include "scenario/points.hpp"

namespace lockstep {

std::string bottleneck_sentence(const Scenario& scenario, const Prediction& prediction,
                                const Point& point);

}  // namespace lockstep
