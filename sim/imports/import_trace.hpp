// Makes a profile from a PyTorch profiler trace of training steps (docs/import.md). Used by
// `import-trace`.
#pragma once

#include <string>
#include <vector>

#include "costs/profile.hpp"
#include "imports/trace.hpp"
#include "workload/step.hpp"

namespace lockstep {

struct TraceImport {
  Profile profile;  // device "" when the trace names none
  int steps = 0;    // behind every median
  bool on_gpu = false;
  double step_seconds = 0;  // medians of the steps
  double forward_seconds = 0, backward_seconds = 0, optimizer_seconds = 0;
  // Share of the step (trace without kernels) or of the GPU's busy time (with kernels) that the
  // layers and the optimizer account for.
  double attributed = 0;
  std::vector<std::string> notes;
};

// A profile that leaves out more than this share of the time would be of no use.
inline constexpr double least_attributed = 0.8;

// A trace of a forward pass alone (`parts`) yields no backward times, no noise or host times of a
// backward pass, and no optimizer. Throws ConfigError as read_trace, find_steps and match_layers
// do; also if less than least_attributed of the time belongs to layers and optimizer.
TraceImport import_trace(const std::string& path, const TrainingStep& step,
                         const TraceParts& parts = {});

}  // namespace lockstep
