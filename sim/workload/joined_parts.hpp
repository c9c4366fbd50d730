// Joins the model parts that one rank of a pipeline holds into one training step. Interleaved and
// V-shaped schedules give a rank several parts; the memory model and the strategies then see one
// list of layers.
#pragma once

#include <span>
#include <vector>

#include "workload/partition.hpp"

namespace lockstep {

// The parts of one rank, one after the other, with layers and storages renumbered.
struct JoinedParts {
  TrainingStep step;
  std::vector<int> first_layers;  // index in `step`, by part
  std::vector<int> layers;        // index in the whole step, by layer of `step`; -1 = receive, send
};
// Joins the parts whose indices in `parts` are `numbers`. Two neighboring parts (the turn of a V)
// hand over the activation and its gradient without a message; with `keep_outputs` such an
// activation stays until the backward of the part that computed it has ended.
// REQUIRES: `numbers` ascend.
JoinedParts join(std::span<const ModelPart> parts, std::span<const int> numbers, bool keep_outputs);

}  // namespace lockstep
