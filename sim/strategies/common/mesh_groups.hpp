// The groups of ranks along the axes of a job's mesh, in two forms: their placement on nodes
// (CommGroup), for the price of collectives, and the group of each rank (RankGroups), for lanes and
// communicators. Strategies use it for every communicator. Ranks are counted within a stage: tensor
// ranks are neighbors, then come context and data ranks.
//
// Example: 8 GPUs of a stage, tensor 2, context 1, data 4.
//   tensor groups    {0 1} {2 3} {4 5} {6 7}   2 ranks, stride 1
//   gradient groups  {0 2 4 6} {1 3 5 7}       4 ranks, stride 2
#pragma once

#include <vector>

#include "costs/nccl_topology.hpp"
#include "strategies/common/lane_classes.hpp"
#include "strategies/strategy.hpp"

namespace lockstep {

// The placement of a group of `ranks` ranks of a stage, `stride` apart, while all other such groups
// of the stage communicate, too. `axis` distinguishes groups of equal shape that have communicators
// of their own.
CommGroup strided_group(const Job& job, int ranks, int stride, int axis = 0);
// The ranks that hold the same parameters and sum their gradients: data times context ranks.
CommGroup gradient_group(const Job& job);
// The ranks that hold the same experts and sum their gradients (fact H5).
CommGroup expert_gradient_group(const Job& job);
// The ranks along the tensor, context or expert axis; for other axes gradient_group().
CommGroup axis_group(const Job& job, Axis axis);
// Seconds of an exchange alone, as collective_cost() prices it.
double exchange_seconds(const Job& job, const AxisExchange& exchange);
// Two neighboring stages, for messages between the same rank of both.
CommGroup neighbour_group(const Job& job);

// The group of each rank of a stage, for groups of `ranks` ranks that are `stride` apart. The next
// three functions are its values for the groups above.
RankGroups strided_ranks(const Mesh& mesh, int ranks, int stride);
RankGroups gradient_ranks(const Mesh& mesh);
RankGroups expert_gradient_ranks(const Mesh& mesh);
RankGroups axis_ranks(const Mesh& mesh, Axis axis);
// The groups along all axes on which a stage has several groups of more than one rank.
std::vector<RankGroups> divisions_of(const Mesh& mesh);

}  // namespace lockstep
