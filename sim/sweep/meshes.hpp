// The meshes that a recommendation tries, and their spelling in settings and tables. Used by the
// search for candidates.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "scenario/scenario.hpp"
#include "workload/step.hpp"

namespace lockstep {

// Forms of strategies that are tried around a mesh, as `recommend` writes them.
struct MeshForm {
  const char* name;      // "zero1"
  const char* strategy;  // "zero"
  const char* options;   // "{stage: 1}"
  bool whole_nodes;      // only where copies of the parameters stand on several nodes
};
inline constexpr std::array mesh_forms{
    MeshForm{"ddp", "ddp", "{}", false}, MeshForm{"zero1", "zero", "{stage: 1}", false},
    MeshForm{"fsdp2", "fsdp", "{version: 2}", false},
    MeshForm{"fsdp2 hybrid_shard", "fsdp", "{version: 2, sharding: hybrid_shard}", true}};

// All combinations of the limits' sizes whose replicas fill the given number of GPUs and whose axes
// divide the model. Other options are those of `base`. Data parallelism alone is not included.
// Tensor ranks stay on a node. `step`: the step of the whole model. `refused` counts the
// combinations that do not divide.
std::vector<ParallelOptions> meshes_of(const MeshLimits& limits, const ParallelOptions& base,
                                       const TrainingStep& step, int gpus, int gpus_per_node,
                                       std::size_t& refused);

// "tp8 pp4 interleaved x5"; "" = only data parallelism.
std::string mesh_name(const ParallelOptions& mesh);

// `parallel` of the scenario with the axes that have several ranks. Without a recipe, tensor ranks
// share the sequence and the loss, and experts are whole.
std::string mesh_setting(const ParallelOptions& mesh, bool recipe);

}  // namespace lockstep
