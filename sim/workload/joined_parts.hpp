// Joins the model parts that one rank of a pipeline holds into one training step. Interleaved and
// V-shaped schedules give a rank several parts; after joining, the memory model and the strategies
// read one list of layers.
#pragma once

#include <span>
#include <vector>

#include "workload/partition.hpp"

namespace lockstep {

// The parts of one rank, one after the other, with layers and storages renumbered.
struct JoinedParts {
  TrainingStep step;
  std::vector<int> first_layers;  // by part: index in `step`
  std::vector<int> layers;        // by layer of `step`: index in the whole step; -1 = receive, send
};
// Joins the parts whose indices in `parts` are `numbers`. Two parts that are neighbours in the
// model (at the turn of a V) pass the activation and its gradient without a message; with
// `keep_outputs` such an activation lives until the backward of the part that computed it has
// ended.
// REQUIRES: `numbers` ascend.
JoinedParts join(std::span<const ModelPart> parts, std::span<const int> numbers, bool keep_outputs);

}  // namespace lockstep
