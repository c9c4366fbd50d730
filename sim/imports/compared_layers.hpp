// Compares the layers of a trace with the device model's prediction of them. Used by `import-trace`
// to check the model on a recorded training step (docs/import.md, "Against the model").
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "costs/profile.hpp"
#include "hardware/machine.hpp"
#include "workload/step.hpp"

namespace lockstep {

enum class ComparedBy { kinds, layers };

struct DeviceTimes {
  double measured = 0, modelled = 0;  // seconds of the device
  double error() const { return modelled / measured - 1; }
};

struct ComparedLayers {
  std::string name;  // of a kind: "conv 3 x 3"; of a layer its own; the last one is "all"
  int layers = 0;
  DeviceTimes forward{};
  std::optional<DeviceTimes> backward{};  // absent where the trace has none
};

// Rows by kind, the longest first, or layer by layer in the order of the step; then the total.
// `measured` must have the layers of `step`. Layers that take no time on the device are left out.
std::vector<ComparedLayers> compare_layers(const ProfileBatch& measured, const TrainingStep& step,
                                           const Device& device, ComparedBy by);

}  // namespace lockstep
