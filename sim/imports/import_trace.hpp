// Makes a profile from a PyTorch profiler trace of training steps (docs/import.md). Used by
// `import-trace`, which merges the profile into a folder or compares it with the device model.
#pragma once

#include <string>
#include <vector>

#include "costs/profile.hpp"
#include "imports/trace.hpp"
#include "workload/step.hpp"

namespace lockstep {

struct TraceImport {
  // Its device is the trace's name of the GPU; "" if the trace names none.
  Profile profile;
  // Number of steps behind every median.
  int steps = 0;
  bool on_gpu = false;
  // Medians over the steps, in seconds.
  double step_seconds = 0;
  double forward_seconds = 0, backward_seconds = 0, optimizer_seconds = 0;
  // Share of the step (trace without kernels) or of the GPU's busy time (with kernels) that the
  // layers and the optimizer account for, 0 to 1.
  double attributed = 0;
  // Remarks for a person.
  std::vector<std::string> notes;
};

// Least share of the time that a profile must account for; below it the steps do something that the
// model does not describe.
inline constexpr double least_attributed = 0.8;

// `step` is the model at the trace's batch and precision. A trace of a forward pass alone (`parts`)
// yields no backward times, no noise or host times of a backward pass, and no optimizer.
//
// Throws ConfigError as read_trace(), find_steps() and match_layers() do; also if less than
// least_attributed of the time belongs to layers and optimizer.
TraceImport import_trace(const std::string& path, const TrainingStep& step,
                         const TraceParts& parts = {});

}  // namespace lockstep
