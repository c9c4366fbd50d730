// Computes the groups of a mesh from degrees and strides. The ranks of a stage are numbered with
// the tensor axis fastest, then context, then data (parallel/mesh.hpp), so that the ranks of each
// group are a constant stride apart. The GPUs of a stage fill nodes one after the other.
#include "strategies/common/mesh_groups.hpp"

#include <algorithm>

#include "strategies/common/network.hpp"

namespace lockstep {

// A node has room for on_node / stride ranks of the group. The node's other ranks belong to
// concurrent groups, which share its NICs.
CommGroup strided_group(const Job& job, int ranks, int stride, int axis) {
  const int node = job.machine.gpus_per_node;
  const int on_node = std::min(node, job.mesh.stage_gpus());
  CommGroup group;
  group.ranks_per_node = std::clamp(on_node / stride, 1, ranks);
  group.nodes = (ranks + group.ranks_per_node - 1) / group.ranks_per_node;
  group.absent = group.ranks_per_node * group.nodes - ranks;
  group.concurrent = std::max(1, on_node / group.ranks_per_node);
  if (ranks == job.mesh.stage_gpus()) group.concurrent = 1;
  group.stride = group.ranks_per_node > 1 ? stride : 1;
  group.axis = axis;
  return group;
}

CommGroup gradient_group(const Job& job) {
  return strided_group(job, job.mesh.copies(), job.mesh.tensor);
}

CommGroup expert_gradient_group(const Job& job) {
  constexpr int number = 7;
  return strided_group(job, job.mesh.expert_copies(), job.mesh.expert_span(), number);
}

CommGroup axis_group(const Job& job, Axis axis) {
  const Mesh& mesh = job.mesh;
  const int number = 2 + static_cast<int>(axis);
  if (axis == Axis::tensor) return strided_group(job, mesh.tensor, 1, number);
  if (axis == Axis::context) return strided_group(job, mesh.context, mesh.tensor, number);
  if (axis == Axis::expert) return strided_group(job, mesh.expert, mesh.expert_tensor, number);
  return gradient_group(job);
}

double exchange_seconds(const Job& job, const AxisExchange& exchange) {
  const CommGroup group = axis_group(job, exchange.axis);
  return collective_cost(job.machine, group, collective_of(exchange.kind), exchange.bytes)
      .seconds();
}

// If two neighbouring stages fit on one node, the message remains inside; otherwise it crosses
// nodes. All ranks of the stage that are on one node send at the same time.
CommGroup neighbour_group(const Job& job) {
  const int node = job.machine.gpus_per_node, stage = job.mesh.stage_gpus();
  CommGroup group;
  const bool inside = 2 * stage <= node;
  group.ranks_per_node = inside ? 2 : 1;
  group.nodes = inside ? 1 : 2;
  group.concurrent = std::min(node, stage);
  group.stride = inside ? stage : 1;
  group.axis = 2 + static_cast<int>(Axis::pipeline);
  return group;
}

// Example: with ranks = 2, stride = 2 and eight ranks, the result is 0 1 0 1 2 3 2 3.
RankGroups strided_ranks(const Mesh& mesh, int ranks, int stride) {
  RankGroups groups;
  for (int rank = 0; rank < mesh.stage_gpus(); ++rank) {
    groups.push_back(rank / (ranks * stride) * stride + rank % stride);
  }
  return groups;
}

RankGroups gradient_ranks(const Mesh& mesh) {
  return strided_ranks(mesh, mesh.copies(), mesh.tensor);
}

RankGroups expert_gradient_ranks(const Mesh& mesh) {
  return strided_ranks(mesh, mesh.expert_copies(), mesh.expert_span());
}

RankGroups axis_ranks(const Mesh& mesh, Axis axis) {
  if (axis == Axis::tensor) return strided_ranks(mesh, mesh.tensor, 1);
  if (axis == Axis::context) return strided_ranks(mesh, mesh.context, mesh.tensor);
  if (axis == Axis::expert) return strided_ranks(mesh, mesh.expert, mesh.expert_tensor);
  return gradient_ranks(mesh);
}

std::vector<RankGroups> divisions_of(const Mesh& mesh) {
  std::vector<RankGroups> divisions;
  const auto add = [&](int ranks, RankGroups groups) {
    if (ranks > 1 && ranks < mesh.stage_gpus()) divisions.push_back(std::move(groups));
  };
  add(mesh.copies(), gradient_ranks(mesh));
  add(mesh.tensor, axis_ranks(mesh, Axis::tensor));
  add(mesh.context, axis_ranks(mesh, Axis::context));
  if (mesh.expert > 1) {
    add(mesh.expert, axis_ranks(mesh, Axis::expert));
    add(mesh.expert_copies(), expert_gradient_ranks(mesh));
  }
  return divisions;
}

}  // namespace lockstep
