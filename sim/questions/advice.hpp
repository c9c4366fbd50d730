// Sentences beside the figures of a prediction: changes that would make the job faster, and options
// of the scenario that change nothing. `run` and the report show them.
#pragma once

#include <string>
#include <vector>

#include "points/points.hpp"
#include "points/predict.hpp"

namespace lockstep {

// The smallest share of the GPU time per sample that a change must save to be mentioned.
inline constexpr double least_gain = 0.02;

// Appends to each prediction's sentence about its bottleneck the changes that would help. First the
// changes that this bottleneck suggests are simulated one by one; hardware gets 10 % better, as in
// `explain`. If no such change saves least_gain, all other changes are tried. Left as they are:
// predictions that do not fit into memory, that are slow to simulate, or that follow many others.
// `scales`: as returned by anchor_scales().
void advise(const Scenario& scenario, const std::vector<CostScale>& scales, Predicted& predicted,
            const RunOptions& options);

// Remarks about the scenario, each once, in the order of the points. An option is named if it is
// not at its default and changes none of the points that it belongs to.
std::vector<std::string> remarks(const Scenario& scenario, const std::vector<Point>& points);

// The part of remarks() about meshes: unwise choices with their price, such as tensor parallelism
// across nodes, or fewer micro-batches than pipeline stages.
std::vector<std::string> mesh_remarks(const std::vector<Point>& points);

}  // namespace lockstep
