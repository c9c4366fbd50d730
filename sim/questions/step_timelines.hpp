// One step of one rank of each of some points, for the page of `lockstep report`.
#pragma once

#include <vector>

#include "points/simulate.hpp"
#include "results/record.hpp"
#include "results/step_timeline.hpp"

namespace lockstep {

// Simulates each of `points` (of which `record` tells) once more, and watches the first rank in a
// step of the steady state, or else in one of the first. All timelines together have a few thousand
// slices at most. Points that the record has not, or whose simulation fails, have none.
std::vector<StepTimeline> step_timelines(const std::vector<Point>& points,
                                         const ResultRecord& record, int workers);

}  // namespace lockstep
