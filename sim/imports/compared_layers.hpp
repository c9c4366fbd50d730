// Compares the layer times of a trace with the times that the device model predicts. `import-trace
// --compare` uses it to check the device model on a recorded training step (docs/import.md,
// "Against the model").
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "costs/profile.hpp"
#include "hardware/machine.hpp"
#include "workload/step.hpp"

namespace lockstep {

// One row for each kind of layer, or one row for each layer.
enum class ComparedBy { kinds, layers };

// Seconds in which the device works, as traced and as predicted.
struct DeviceTimes {
  double measured = 0, modelled = 0;
  // Relative error of the prediction: +0.1 = 10 % too slow.
  double error() const { return modelled / measured - 1; }
};

// One row of the comparison: a layer, or the sum of several layers.
struct ComparedLayers {
  // The layer's name, or a kind such as "conv 3 x 3"; the last row is called "all".
  std::string name;
  // Number of layers in the row.
  int layers = 0;
  DeviceTimes forward{};
  // Absent if the trace has no backward times.
  std::optional<DeviceTimes> backward{};
};

// Returns one row for each kind, the longest measured time first, or one row for each layer in the
// order of the step; then the total. Layers that take no time on the device, neither traced nor
// predicted, are left out.
// REQUIRES: `measured` has the layers of `step`, in the same order.
std::vector<ComparedLayers> compare_layers(const ProfileBatch& measured, const TrainingStep& step,
                                           const Device& device, ComparedBy by);

}  // namespace lockstep
