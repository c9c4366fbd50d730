// One plain sentence: what limits a prediction, and what would help.
#pragma once

#include <string>

#include "results/record.hpp"
#include "scenario/points.hpp"

namespace lockstep {

std::string bottleneck_sentence(const Prediction& prediction, const Point& point);

}  // namespace lockstep
