// The groups of ranks along the axes of a job's mesh: their ranks, for lanes, and their placement,
// for the price of collectives. Use it whenever a strategy communicates. Ranks are counted within a
// stage: tensor ranks are neighbours, then follow context and data ranks.
#pragma once

#include <vector>

#include "costs/nccl_topology.hpp"
#include "strategies/common/lane_classes.hpp"
#include "strategies/strategy.hpp"

namespace lockstep {

// A group of `ranks` ranks of a stage, `stride` apart, beside all other such groups of the stage.
// `axis` distinguishes groups of equal shape with communicators of their own.
CommGroup strided_group(const Job& job, int ranks, int stride, int axis = 0);
// The ranks that hold the same parameters and sum their gradients.
CommGroup gradient_group(const Job& job);
// The ranks that hold the same experts (fact H5).
CommGroup expert_gradient_group(const Job& job);
// The ranks along the context or the tensor axis.
CommGroup axis_group(const Job& job, Axis axis);
// Seconds of an exchange alone, by the collectives' own costs.
double exchange_seconds(const Job& job, const AxisExchange& exchange);
// Neighbouring stages: the same rank of each.
CommGroup neighbour_group(const Job& job);

// The number of each rank's group, for groups of `ranks` ranks that are `stride` apart.
RankGroups strided_ranks(const Mesh& mesh, int ranks, int stride);
RankGroups gradient_ranks(const Mesh& mesh);
RankGroups expert_gradient_ranks(const Mesh& mesh);
RankGroups axis_ranks(const Mesh& mesh, Axis axis);
// The divisions along all axes on which a stage has several groups.
std::vector<RankGroups> divisions_of(const Mesh& mesh);

}  // namespace lockstep
