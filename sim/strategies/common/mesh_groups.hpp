// The groups of ranks along the axes of a job's mesh: who they are, for lanes, and where they lie, for the
// price of their collectives. Ranks are counted within a stage: tensor ranks are neighbours, then come
// context and data ranks.
#pragma once

#include <vector>

#include "costs/nccl_topology.hpp"
#include "strategies/common/lane_classes.hpp"
#include "strategies/strategy.hpp"

namespace lockstep {

// `ranks` of a stage, `stride` apart, beside all other such groups of the stage. `axis` tells groups of
// one shape apart that have communicators of their own.
CommGroup strided_group(const Job& job, int ranks, int stride, int axis = 0);
// The ranks that hold the same parameters: their gradients are summed over it.
CommGroup gradient_group(const Job& job);
// The ranks that hold the same experts (fact H5).
CommGroup expert_gradient_group(const Job& job);
// The ranks along the context or the tensor axis.
CommGroup axis_group(const Job& job, Axis axis);
// Seconds of an exchange alone, by the collectives' own costs.
double exchange_seconds(const Job& job, const AxisExchange& exchange);
// Neighbouring stages: the same rank of each.
CommGroup neighbour_group(const Job& job);

// The number of each rank's group, of ranks that are `ranks` many and `stride` apart.
RankGroups strided_ranks(const Mesh& mesh, int ranks, int stride);
RankGroups gradient_ranks(const Mesh& mesh);
RankGroups expert_gradient_ranks(const Mesh& mesh);
RankGroups axis_ranks(const Mesh& mesh, Axis axis);
// Of all axes on which a stage has several groups.
std::vector<RankGroups> divisions_of(const Mesh& mesh);

}  // namespace lockstep
