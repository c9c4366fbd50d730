// Measured costs after a change of the hardware. Measured times (a profile's layers, measured
// collective curves) do not change when the machine's description is edited, so they are multiplied
// by the ratio of the modelled costs after and before the edit. A modelled cost of zero before the
// edit leaves the measured time as it is. Questions about better hardware (advice, `explain`) and a
// scenario's `fabric:` make such changes.
#pragma once

#include <functional>
#include <memory>

#include "costs/compute.hpp"
#include "hardware/machine.hpp"

namespace lockstep {

// A change of the hardware: edits the machine and the framework's costs in place.
using MachineEdit = std::function<void(Machine&, Framework&)>;

// Returns the measured costs `answers`, multiplied by the ratio of the modelled costs `after` and
// `before` the change. Device time and host time have a ratio each, taken from the same work.
std::shared_ptr<const ComputeCosts> changed_costs(std::shared_ptr<const ComputeCosts> answers,
                                                  std::shared_ptr<const ComputeCosts> before,
                                                  std::shared_ptr<const ComputeCosts> after);

// Scales the measured curves of `after`, which must still be equal to the curves of `before`, by
// the ratio of the modelled collectives. On CPUs the whole time scales with the modelled time.
// Between GPUs, the latency scales with the modelled latency, and the rest of the time scales with
// the transfer time of the slowest link. Curves of unknown collectives stay.
void change_curves(const Machine& before, Machine& after);

}  // namespace lockstep
