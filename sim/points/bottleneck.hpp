// The bottleneck of a prediction: the part of the step that limits it. summarise_point()
// (predict.hpp) puts the sentence into the prediction; advice (questions/advice.cpp) selects
// changes by the enum.
#pragma once

#include <string>

#include "points/points.hpp"
#include "results/record.hpp"

namespace lockstep {

// The part of the step, or the memory, that limits the job.
enum class Limit {
  nothing,        // the step has no work
  memory,         // the job does not fit into memory
  compute,        // forward and backward work of the model
  loader,         // the rate of the data loader
  input_copy,     // copies of batches to the device
  communication,  // communication that no compute hides
  host,           // waiting of the device for the host to issue work
  waiting,        // waiting for other ranks, other stages or the server
  update,         // update of the parameters, with copies of gradients
  host_update,    // update on the CPUs (cpu_offload), with copies
};

struct Bottleneck {
  Limit limit = Limit::nothing;
  std::string sentence;
};

// Returns `memory` if the job does not fit. Otherwise returns the largest part besides forward and
// backward if it takes a fifth of the step or more time than these two, and else `compute`.
// REQUIRES: `point` is the point of the prediction.
Bottleneck bottleneck_of(const Prediction& prediction, const Point& point);

}  // namespace lockstep
