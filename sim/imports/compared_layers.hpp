// Compares the layers of a trace with their times in the device model. Used by `import-trace
// --compare` to check the model on a recorded training step (docs/import.md, "Against the model").
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "costs/profile.hpp"
#include "hardware/machine.hpp"
#include "workload/step.hpp"

namespace lockstep {

// A row per kind of layer, or a row per layer.
enum class ComparedBy { kinds, layers };

// Seconds that the device works, as traced and as predicted.
struct DeviceTimes {
  double measured = 0, modelled = 0;
  // Relative error of the prediction: +0.1 = 10 % too slow.
  double error() const { return modelled / measured - 1; }
};

// One row: a layer, or the sum of several.
struct ComparedLayers {
  // The layer's name; of a kind such as "conv 3 x 3"; of the last row "all".
  std::string name;
  // Number of layers in the row.
  int layers = 0;
  DeviceTimes forward{};
  // Absent where the trace has no backward times.
  std::optional<DeviceTimes> backward{};
};

// Rows by kind, the longest first, or layer by layer in the order of the step; then the total.
// Layers that take no time on the device are left out.
// REQUIRES: `measured` has the layers of `step`, in the same order.
std::vector<ComparedLayers> compare_layers(const ProfileBatch& measured, const TrainingStep& step,
                                           const Device& device, ComparedBy by);

}  // namespace lockstep
