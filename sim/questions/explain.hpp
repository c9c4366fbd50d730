// Why a prediction is what it is: attribution of the step, sensitivity to each input, origin of the
// costs, and the attribution of a difference.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "points/points.hpp"
#include "points/simulate.hpp"
#include "results/record.hpp"

namespace lockstep {

// A part of the step in seconds. The parts of one attribution add up to the mean step exactly.
using Attribution = std::vector<std::pair<std::string, double>>;

// Compute is split by what bounds it (arithmetic, memory bandwidth); everything else as StepSplit
// has it.
Attribution attribute(const Prediction& prediction, const Point& point);

struct Sensitivity {
  std::string input;       // "memory bandwidth +10 %"
  double step_change = 0;  // relative change of the time per sample
  bool fits = true;        // into memory, after the change
};

// Time per sample with each input changed on its own, most sensitive first; measured costs change
// as the modelled ones do. Inputs the point does not use (a NIC on one node) come out as 0 and are
// left out. `scales` as anchor_scales gives them.
std::vector<Sensitivity> sensitivities(const Scenario& scenario, const Point& point,
                                       const std::vector<CostScale>& scales,
                                       const RunOptions& options);

// GPU seconds per sample of one part in two predictions.
struct DifferencePart {
  std::string what;
  double before = 0, after = 0;
};
// Where the difference of two predictions comes from: parts that are nothing in both left out.
std::vector<DifferencePart> difference(const Prediction& from, const Point& from_point,
                                       const Prediction& to, const Point& to_point);

// One change on the way from a mesh to another.
struct AxisChange {
  std::string change;  // "tensor 4 -> 8"
  double seconds = 0;  // more GPU seconds per sample
  std::string mostly;  // the part that changes most
};
// The gain of each axis of the mesh, changed one after the other: tensor, context, expert, pipeline, then the
// micro-batch. Axes that cannot be changed alone are one change. Where the scenarios differ in nothing else, the
// seconds add up to the whole difference. Empty where the meshes are equal.
std::vector<AxisChange> axis_changes(const Scenario& from, const Point& from_point,
                                     const Scenario& to, const Point& to_point,
                                     const std::vector<CostScale>& scales,
                                     const RunOptions& options);

// Device seconds of one micro-batch by kind of layer ("conv", "batch_norm", ...), largest first.
Attribution device_time_by_kind(const Point& point);

}  // namespace lockstep
