// Ranks with other devices than the platform's: what a job's work takes there.
#pragma once

#include <vector>

#include "points/inputs.hpp"
#include "points/misfits.hpp"
#include "scenario/scenario.hpp"
#include "strategies/strategy.hpp"

namespace lockstep {

// `stragglers.other_devices` that cannot be: nodes and ranks named twice, too many kinds, GPUs among CPUs.
void check_other_devices(const Scenario& scenario, const Inputs& inputs, Misfits& misfits);

// Ranks of the job that have it.
std::vector<int> ranks_with(const OtherDevice& other, const Job& job);

// Ranks on other devices take for each piece of work as many times longer as the model says of that
// piece, layer by layer, forward and backward apart; the smallest memory is everybody's.
void use_other_devices(const Scenario& scenario, const Inputs& inputs, Job& job);

}  // namespace lockstep
