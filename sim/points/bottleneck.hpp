// The bottleneck of a prediction: the part of the step that limits it, as an enum for rules and as
// a sentence for people. The table, the report and advice (questions/advice.cpp) use it.
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
  host,           // host time to issue work
  waiting,        // waiting for other ranks, other stages or the server
  update,         // update of the parameters, with copies of gradients
  host_update,    // update on the CPUs (cpu_offload), with copies
};

struct Bottleneck {
  Limit limit = Limit::nothing;
  std::string sentence;
};

// `point` must be the point of the prediction.
Bottleneck bottleneck_of(const Prediction& prediction, const Point& point);

}  // namespace lockstep
