// Sentences that accompany the numbers of a prediction: changes that would make the job faster, and
// options of the scenario that change nothing. `run` and the report show them.
#pragma once

#include <string>
#include <vector>

#include "points/points.hpp"
#include "points/predict.hpp"

namespace lockstep {

// A change is mentioned only if it saves at least this share of the GPU time per sample.
inline constexpr double least_gain = 0.02;

// Appends to each prediction's sentence about its bottleneck the best changes (at most three) that
// would help, or that no tried change does. First simulates, one by one, the changes that this
// bottleneck suggests; a change of hardware makes a resource 10 % better, as in `explain`. If none
// of these saves least_gain, tries all other changes. Gives no advice for predictions that do not
// fit into memory or are slow to simulate, nor after the first 64 points. `scales` is the result of
// anchor_scales().
void advise(const Scenario& scenario, const std::vector<CostScale>& scales, Predicted& predicted,
            const RunOptions& options);

// Remarks about the scenario, each once: precisions for which a device has no units, layers that
// the profile lacks, GPU counts that use a part of a node, mesh_remarks(), and idle options. An
// idle option is not at its default and has no effect on any point; for an option of a strategy
// entry, only the points of that entry count.
std::vector<std::string> remarks(const Scenario& scenario, const std::vector<Point>& points);

// The part of remarks() about meshes: costly choices with the time that they cost, such as tensor
// parallelism across nodes or fewer micro-batches than pipeline stages; also derived slice lengths
// and dropped tokens.
std::vector<std::string> mesh_remarks(const std::vector<Point>& points);

}  // namespace lockstep
