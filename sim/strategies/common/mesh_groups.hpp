// The groups of ranks along the axes of a job's mesh, in two forms: CommGroup is their placement on
// nodes, for the costs of collectives; RankGroups is the group of each rank, for lanes and
// communicators. Strategies use these functions for every communicator. Ranks are numbered within a
// stage: tensor ranks are neighbours, then come context ranks and data ranks.
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

// The placement of a group of `ranks` ranks of a stage that are `stride` apart, assuming that all
// other such groups of the stage communicate at the same time. `axis` distinguishes groups of equal
// shape that have communicators of their own.
CommGroup strided_group(const Job& job, int ranks, int stride, int axis = 0);
// The ranks that hold the same parameters and sum their gradients: data times context ranks.
CommGroup gradient_group(const Job& job);
// The ranks that hold the same experts and sum their gradients (fact H5).
CommGroup expert_gradient_group(const Job& job);
// The ranks along the tensor, context or expert axis; for any other axis, gradient_group().
CommGroup axis_group(const Job& job, Axis axis);
// Seconds that an exchange takes without other traffic, by collective_cost().
double exchange_seconds(const Job& job, const AxisExchange& exchange);
// The same rank of two neighbouring stages, for the messages between them.
CommGroup neighbour_group(const Job& job);

// The group of each rank of a stage, if groups have `ranks` ranks that are `stride` apart. The next
// three functions are strided_ranks() for the groups of the functions above.
RankGroups strided_ranks(const Mesh& mesh, int ranks, int stride);
RankGroups gradient_ranks(const Mesh& mesh);
RankGroups expert_gradient_ranks(const Mesh& mesh);
RankGroups axis_ranks(const Mesh& mesh, Axis axis);
// The groups along each axis on which a stage has several groups with more than one rank.
std::vector<RankGroups> divisions_of(const Mesh& mesh);

}  // namespace lockstep
