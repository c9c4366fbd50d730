// One step of one rank of each of some points, for the page of `lockstep report`.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "points/simulate.hpp"
#include "results/record.hpp"

namespace lockstep {

// Simulates each of `points` (of which `record` tells) once more, and watches the first rank in a
// step of the steady state, or else in one of the first. All timelines together have a few thousand
// slices at most. Points that the record has not, or whose simulation fails, have none. Each is
// json_of(StepTimeline) (results/step_timeline.hpp), as the page draws it.
std::vector<nlohmann::ordered_json> step_timelines(const std::vector<Point>& points,
                                                   const ResultRecord& record, int workers);

}  // namespace lockstep
