// Explanations of a prediction (`explain`): the parts of its step, its sensitivity to each input,
// the origin of its costs, and the causes of a difference between two predictions. Sensitivities
// and axis changes simulate; the other functions only rearrange figures.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "points/points.hpp"
#include "points/simulate.hpp"
#include "results/record.hpp"

namespace lockstep {

// The parts of a step, by name, in seconds. The parts of one attribution add up to the mean step.
using Attribution = std::vector<std::pair<std::string, double>>;

// Splits compute by its limit (arithmetic or memory bandwidth), and lists all other parts of
// StepSplit. With a mesh, exposed communication is split by axis.
Attribution attribute(const Prediction& prediction, const Point& point);

// The effect of one input.
struct Sensitivity {
  std::string input;       // "memory bandwidth +10 %"
  double step_change = 0;  // relative change of the time per sample
  bool fits = true;        // into memory, after the change
};

// Changes each input by itself and returns the relative change of the time per sample, largest
// effect first. Measured costs change in proportion to the modelled ones. Inputs without an effect
// (the NIC of a job on one node) are left out. `scales`: as returned by anchor_scales(). Throws
// std::runtime_error if a simulation fails.
std::vector<Sensitivity> sensitivities(const Scenario& scenario, const Point& point,
                                       const std::vector<CostScale>& scales,
                                       const RunOptions& options);

// GPU seconds per sample of one part of the step, in two predictions.
struct DifferencePart {
  std::string what;
  double before = 0, after = 0;
};
// Splits the difference of two predictions by the parts of the step. Parts that are zero in both
// are left out.
std::vector<DifferencePart> difference(const Prediction& from, const Point& from_point,
                                       const Prediction& to, const Point& to_point);

// One step on the way from one mesh to another.
struct AxisChange {
  std::string change;  // "tensor 4 -> 8"
  double seconds = 0;  // additional GPU seconds per sample
  std::string mostly;  // the part of the step that changes most
};
// The effect of each axis of the mesh, changed one after the other: tensor, context, expert,
// pipeline, then the micro-batch. Axes that cannot be changed alone are combined with the next one.
// If the scenarios differ in nothing else, the seconds add up to the whole difference. Empty if the
// meshes are equal. `scales`: as returned by anchor_scales().
std::vector<AxisChange> axis_changes(const Scenario& from, const Point& from_point,
                                     const Scenario& to, const Point& to_point,
                                     const std::vector<CostScale>& scales,
                                     const RunOptions& options);

// Device seconds of one micro-batch by kind of layer ("conv", "batch_norm", ...), largest first.
Attribution device_time_by_kind(const Point& point);

}  // namespace lockstep
