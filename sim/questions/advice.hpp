// Sentences for the reader of an answer, beside its figures: changes that would help a job, and options
// of the question that change nothing.
#pragma once

#include <string>
#include <vector>

#include "points/points.hpp"
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

// Sentences, each once, in the order of the points. An option is named when it is not at its
// default and changes none of the points that it is meant for.
std::vector<std::string> remarks(const Scenario& scenario, const std::vector<Point>& points);

// Of them, what is unwise about the meshes, each with its price: tensor parallelism that leaves the
// node, fewer micro-batches than stages.
std::vector<std::string> mesh_remarks(const std::vector<Point>& points);

}  // namespace lockstep
