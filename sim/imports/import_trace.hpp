// Makes a profile from a PyTorch profiler trace of training steps (docs/import.md). `import-trace`
// merges the profile into a folder or compares it with the device model.
#pragma once

#include <string>
#include <vector>

#include "costs/profile.hpp"
#include "imports/trace.hpp"
#include "workload/step.hpp"

namespace lockstep {

struct TraceImport {
  // `profile.device` is the trace's name of the GPU; "" if the trace names none.
  Profile profile;
  // Number of steps over which medians are taken.
  int steps = 0;
  bool on_gpu = false;
  // Medians over the steps, in seconds.
  double step_seconds = 0;
  double forward_seconds = 0, backward_seconds = 0, optimizer_seconds = 0;
  // The part of the GPU's busy time without NCCL's kernels (in a trace without kernels: of the
  // step) that belongs to the layers and the optimizer, 0 to 1.
  double attributed = 0;
  // Notes for the user.
  std::vector<std::string> notes;
};

// Least value of `attributed`. Below it, the steps do something that the model does not describe.
inline constexpr double least_attributed = 0.8;

// `step` is the model at the trace's batch and precision. If `parts` says that the trace has only a
// forward pass, the profile has no times of backward and no optimizer.
//
// Throws the ConfigErrors of read_trace(), find_steps() and match_layers(), and one if `attributed`
// is below least_attributed.
TraceImport import_trace(const std::string& path, const TrainingStep& step,
                         const TraceParts& parts = {});

}  // namespace lockstep
