// The limit of a prediction.
#pragma once

#include <string>

#include "points/points.hpp"
#include "results/record.hpp"

namespace lockstep {

enum class Limit {
  nothing,        // there is nothing to do
  memory,         // it does not fit
  compute,        // forward and backward work
  loader,         // the data loader's rate
  input_copy,     // of batches to the device
  communication,  // that no work hides
  host,           // that issues work
  waiting,        // for other ranks or the server
  update,         // of the parameters, with the copies of gradients
  host_update,    // likewise, on the CPUs of cpu_offload
};

struct Bottleneck {
  Limit limit = Limit::nothing;
  std::string sentence;
};

Bottleneck bottleneck_of(const Prediction& prediction, const Point& point);

}  // namespace lockstep
