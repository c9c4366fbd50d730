// Parts of a model that one rank of a pipeline holds, as one training step.
#pragma once

#include <span>
#include <vector>

#include "workload/partition.hpp"

namespace lockstep {

// The parts of one rank as one step, one after the other. `numbers`: which parts, ascending. Where two of
// them are neighbours the activation and its gradient are handed over without a message; `keep_outputs`: such
// an activation stays until the backward of the part that gave it has ended.
struct JoinedParts {
  TrainingStep step;
  std::vector<int> first_layers;  // of each part
  std::vector<int> layers;        // of the whole step, by layer of `step`; -1 = receive, send
};
JoinedParts join(std::span<const ModelPart> parts, std::span<const int> numbers, bool keep_outputs);

}  // namespace lockstep
