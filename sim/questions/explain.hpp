// Explanations of a prediction (`explain`): the parts of its step, its sensitivity to each input,
// the origin of its costs, and the causes of a difference between two predictions. sensitivities()
// and axis_changes() simulate; the other functions only rearrange known numbers.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "points/points.hpp"
#include "points/simulate.hpp"
#include "results/record.hpp"

namespace lockstep {

// Parts of a whole, by name, in seconds.
using Attribution = std::vector<std::pair<std::string, double>>;

// Divides compute by its limit (arithmetic or memory bandwidth), and lists all other parts of
// StepSplit. All parts add up to the mean step. If the point has a mesh of several axes, exposed
// communication is divided by axis.
Attribution attribute(const Prediction& prediction, const Point& point);

// The effect of one input.
struct Sensitivity {
  std::string input;       // "memory bandwidth +10 %"
  double step_change = 0;  // relative change of the time per sample
  bool fits = true;        // whether the job fits into memory after the change
};

// Raises each input separately, by 10 % (the batch is doubled), and returns the relative change of
// the time per sample, largest effect first. Measured costs change in proportion to the modelled
// ones. Leaves out inputs without an effect, such as the NIC of a job on one node. `scales` is the
// result of anchor_scales(). Throws ConfigError if a change is refused, and std::runtime_error if a
// simulation fails.
std::vector<Sensitivity> sensitivities(const Scenario& scenario, const Point& point,
                                       const std::vector<CostScale>& scales,
                                       const RunOptions& options);

// GPU seconds per sample of one part of the step, in two predictions.
struct DifferencePart {
  std::string what;
  double before = 0, after = 0;
};
// Divides the difference of two predictions by the parts of the step. Leaves out parts that are
// zero in both.
std::vector<DifferencePart> difference(const Prediction& from, const Point& from_point,
                                       const Prediction& to, const Point& to_point);

// One step on the path from one mesh to another.
struct AxisChange {
  std::string change;  // "tensor 4 -> 8"
  double seconds = 0;  // additional GPU seconds per sample
  std::string mostly;  // the part of the step that changes most
};
// The effect of each axis of the mesh. The axes change one after the other: tensor, context,
// expert, pipeline, then the micro-batch. An axis that cannot be changed by itself is changed
// together with the next one. If the scenarios differ in nothing else, the seconds add up to the
// whole difference. Empty if the meshes are equal. `scales` is the result of anchor_scales().
std::vector<AxisChange> axis_changes(const Scenario& from, const Point& from_point,
                                     const Scenario& to, const Point& to_point,
                                     const std::vector<CostScale>& scales,
                                     const RunOptions& options);

// Device seconds of one micro-batch by kind of layer ("conv", "batch_norm", ...), largest first.
Attribution device_time_by_kind(const Point& point);

}  // namespace lockstep
