// Measured costs after a change of the hardware. The machine's file does not determine a profile's
// times and measured collective curves, so they are multiplied by the ratio of the modelled costs
// after and before the change. Questions about better hardware (advice, `explain`) and a scenario's
// `fabric:` make such changes.
#pragma once

#include <functional>
#include <memory>

#include "costs/compute.hpp"
#include "hardware/machine.hpp"

namespace lockstep {

// A change of the hardware: edits the machine and the framework's costs in place.
using MachineEdit = std::function<void(Machine&, Framework&)>;

// The costs `answers`, multiplied by the ratio `after` / `before` of the modelled costs of the same
// work.
std::shared_ptr<const ComputeCosts> changed_costs(std::shared_ptr<const ComputeCosts> answers,
                                                  std::shared_ptr<const ComputeCosts> before,
                                                  std::shared_ptr<const ComputeCosts> after);

// Scales the measured curves of `after`, which must still be equal to the curves of `before`, by
// the ratio of the modelled collectives. Between GPUs, the latency changes with the modelled
// latency, and the rest of the time changes with the slowest link.
void change_curves(const Machine& before, Machine& after);

}  // namespace lockstep
