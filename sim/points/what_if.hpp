// What a change of the hardware would do to costs that were measured. A profile and a measured
// curve answer the same whatever the machine's file says; what the change does to the model's
// answer, it is taken to do to the measured one.
#pragma once

#include <functional>
#include <memory>

#include "costs/compute.hpp"
#include "hardware/machine.hpp"

namespace lockstep {

using MachineEdit = std::function<void(Machine&, Framework&)>;

// `answers`, times what the model says after the change over what it said before.
std::shared_ptr<const ComputeCosts> changed_costs(std::shared_ptr<const ComputeCosts> answers,
                                                  std::shared_ptr<const ComputeCosts> before,
                                                  std::shared_ptr<const ComputeCosts> after);

// The same for the curves of `after`, which are still those of `before`. Between GPUs the latency
// is scaled as the model's, the rest with the link that is tightest.
void change_curves(const Machine& before, Machine& after);

}  // namespace lockstep
