// Changes that would help a job: each was simulated, and saves time.
#pragma once

#include "points/predict.hpp"

namespace lockstep {

// The least share of the GPU time per sample that a change saves before anybody is told of it.
inline constexpr double least_gain = 0.02;

// Ends each prediction's sentence on its bottleneck with what would help. The changes which the
// bottleneck suggests are simulated one by one (hardware 10 % better, as `explain` has it); the
// others are, if none of these saves least_gain. Predictions that do not fit, that are dear to
// simulate or that follow many others stay as they are. `scales` as anchor_scales gives them.
void advise(const Scenario& scenario, const std::vector<CostScale>& scales, Predicted& predicted,
            const RunOptions& options);

}  // namespace lockstep
