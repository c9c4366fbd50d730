// The names of the parts of a step in renderings and questions: one row per member of StepSplit.
// Iterate over the rows instead of naming members.
#pragma once

#include "results/record.hpp"

namespace lockstep {

// Whether a part is work or a wait, for colours and explanations.
enum class PartKind {
  input,    // the device waits for data
  compute,  // the model's own work
  upkeep,   // the device is busy with work that training adds: update and copies
  idle,     // the device waits for a transfer, the host or other ranks
};

// A part of the step: its member and its names.
struct StepPart {
  double StepSplit::*seconds;
  const char* name;     // in JSON; CSV appends _s
  const char* heading;  // of a column in tables
  const char* phrase;   // in a sentence
  PartKind kind;
  const char* doc;
};

// The parts in the order of StepSplit's members.
inline constexpr std::array<StepPart, step_parts.size()> named_parts{{
    {&StepSplit::data_loading, "data_loading", "loading", "data loading", PartKind::input,
     "The device waits for input."},
    {&StepSplit::forward, "forward", "forward", "forward", PartKind::compute,
     "The device computes the loss."},
    {&StepSplit::backward, "backward", "backward", "backward", PartKind::compute,
     "The device computes gradients, recomputation included."},
    {&StepSplit::optimizer, "optimizer", "optimizer", "optimizer", PartKind::upkeep,
     "The parameters are updated."},
    {&StepSplit::copies, "copies", "copies", "gradient copies", PartKind::upkeep,
     "Copies into buckets, casts and clipping keep the device busy."},
    {&StepSplit::exposed_communication, "exposed_communication", "exposed comm",
     "exposed communication", PartKind::idle, "The device waits for a running transfer."},
    {&StepSplit::host_bound, "host_bound", "host-bound", "host dispatch", PartKind::idle,
     "The device waits for the host to issue work."},
    {&StepSplit::waiting, "waiting", "waiting", "waiting for other ranks or servers",
     PartKind::idle, "The device waits for another rank: stragglers, a server's queue, a barrier."},
    {&StepSplit::bubble, "bubble", "bubble", "waiting for other stages of the pipeline",
     PartKind::idle, "The device waits for another stage of its pipeline."},
}};

// An axis of the mesh, with its name in outputs.
struct AxisPart {
  double AxisSeconds::*seconds;
  const char* name;
};
inline constexpr std::array<AxisPart, axis_parts.size()> named_axes{
    {{&AxisSeconds::tensor, "tensor"},
     {&AxisSeconds::context, "context"},
     {&AxisSeconds::expert, "expert"},
     {&AxisSeconds::pipeline, "pipeline"},
     {&AxisSeconds::data, "data"}}};

// The sum of all parts, which is the step.
inline double total_seconds(const StepSplit& split) {
  double sum = 0;
  for (const auto part : step_parts) sum += split.*part;
  return sum;
}

}  // namespace lockstep
