// Resolves the options as PyTorch does, chooses the groups of ranks that share a copy, and lays out
// each unit over its group. Numbers in brackets are facts of docs/facts.md.
#include "strategies/fsdp/layout.hpp"

#include <algorithm>
#include <cmath>

namespace lockstep {

namespace {

// Bytes to which use_orig_params aligns every parameter within the flat one [27].
constexpr int alignment = 16;

bool is_hybrid(Sharding sharding) {
  return sharding == Sharding::hybrid_shard || sharding == Sharding::hybrid_shard_zero2;
}

// Sets the shard groups. If there is one replica, a hybrid mode becomes its plain counterpart; if
// there is one rank, every mode becomes no_shard [28].
void choose_groups(const Job& job, FsdpLayout& layout) {
  FsdpOptions& options = layout.options;
  int ranks = options.sharding == Sharding::no_shard ? 1 : job.mesh.copies();
  if (is_hybrid(options.sharding)) {
    const int wanted = options.shard_group > 0 ? options.shard_group : job.machine.gpus_per_node;
    ranks = std::min(wanted, job.mesh.copies());
  }
  layout.groups = shard_groups(job, ranks, "fsdp.shard_group");
  if (layout.groups.replicas == 1) {
    if (options.sharding == Sharding::hybrid_shard) options.sharding = Sharding::full_shard;
    if (options.sharding == Sharding::hybrid_shard_zero2)
      options.sharding = Sharding::shard_grad_op;
  }
  if (ranks == 1) options.sharding = Sharding::no_shard;
}

// The user's element size, or the default if the user gives 0.
int chosen_bytes(double wanted, int otherwise) {
  return wanted > 0 ? static_cast<int>(std::lround(wanted)) : otherwise;
}

}  // namespace

double FsdpLayout::optimizer_elements() const {
  double sum = 0;
  for (std::size_t i = 0; i < units.size(); ++i) {
    sum += layouts[i].shard * layouts[i].trained;
  }
  return sum;
}

// FSDP2's optimizer has a part of every tensor. FSDP1's optimizer has one flat tensor for each
// unit, or with use_orig_params the tensors that the rank's range of the flat tensor touches.
int FsdpLayout::optimizer_tensors() const {
  int sum = 0;
  for (const FsdpUnit& unit : units) {
    const int tensors = unit.trainable_tensors();
    if (options.version == 2) {
      sum += tensors;
    } else if (options.use_orig_params) {
      sum += std::min(tensors, tensors / groups_of(unit).ranks + 1);
    } else if (tensors > 0) {
      ++sum;
    }
  }
  return sum;
}

int shards_of_node(const Job& job) {
  const int of_node = job.machine.gpus_per_node / job.mesh.tensor;
  return of_node > 1 && job.mesh.copies() > of_node ? of_node : 0;
}

FsdpLayout fsdp_layout(const Job& job, const FsdpOptions& options) {
  FsdpLayout layout;
  layout.options = options;
  // Ranks on CPUs compute in host memory, so there is nothing to offload.
  if (is_host(job.machine.device)) layout.options.offload = {};
  choose_groups(job, layout);
  if (options.zeropp.is_used() && shards_of_node(job) > 0) {
    layout.node_groups = shard_groups(job, shards_of_node(job), "fsdp.zeropp");
  }
  layout.once_a_step = job.mesh.pipeline > 1;
  layout.expert_groups = expert_shard_groups(job);
  layout.shard_bytes = parameter_bytes(job.step->precision);
  layout.gather_bytes = chosen_bytes(options.gather_bytes, activation_bytes(job.step->precision));
  layout.reduce_bytes = chosen_bytes(options.reduce_bytes, layout.gather_bytes);
  layout.units = make_units(*job.step, options.wrap);
  for (const FsdpUnit& unit : layout.units) {
    const std::int64_t aligned =
        options.use_orig_params ? std::max(1, alignment / layout.gather_bytes_of(unit)) : 0;
    layout.layouts.push_back(options.version == 2
                                 ? per_parameter_layout(unit, layout.groups_of(unit).ranks)
                                 : flat_layout(unit, layout.groups_of(unit).ranks, aligned));
    const double all = unit.elements();
    if (all > 0) layout.layouts.back().trained = unit.trainable_elements() / all;
  }
  return layout;
}

}  // namespace lockstep
