// The meshes that a recommendation tries, and their names in settings and tables. Used by the
// search for candidates.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "scenario/scenario.hpp"
#include "workload/step.hpp"

namespace lockstep {

// A form of a strategy that is tried with meshes, as `recommend` names it. Forms other than ddp
// need a mesh with several copies of the parameters.
struct MeshForm {
  const char* name;      // "zero1"
  const char* strategy;  // "zero"
  const char* options;   // "{stage: 1}"
  bool whole_nodes;      // needs copies of the parameters on several whole nodes
};
inline constexpr std::array mesh_forms{
    MeshForm{"ddp", "ddp", "{}", false}, MeshForm{"zero1", "zero", "{stage: 1}", false},
    MeshForm{"fsdp2", "fsdp", "{version: 2}", false},
    MeshForm{"fsdp2 hybrid_shard", "fsdp", "{version: 2, sharding: hybrid_shard}", true}};

// All combinations of the limits' sizes whose replicas fill `gpus` GPUs and whose axes divide the
// model. If the limits give no context sizes, context parallelism is tried for long sequences only.
// `base` gives all other options. Leaves out tensor sizes larger than a node, and the combination
// in which every size is 1. `step` is the step of the whole model. Adds to `refused` the number of
// combinations that do not divide.
std::vector<ParallelOptions> meshes_of(const MeshLimits& limits, const ParallelOptions& base,
                                       const TrainingStep& step, int gpus, int gpus_per_node,
                                       std::size_t& refused);

// A name such as "tp8 pp4 interleaved x5"; "" for data parallelism only.
std::string mesh_name(const ParallelOptions& mesh);

// The mesh as a setting `parallel={...}` with the axes that have several ranks. Without a recipe,
// the setting also says that tensor ranks divide sequence and loss, and that experts are not
// divided by the tensor axis.
std::string mesh_setting(const ParallelOptions& mesh, bool recipe);

}  // namespace lockstep
