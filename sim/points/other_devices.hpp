// Ranks whose devices differ from the platform's (`stragglers.other_devices`): checks of the field,
// and the costs of such a rank's work. expand() applies them to each job.
#pragma once

#include <vector>

#include "points/inputs.hpp"
#include "points/misfits.hpp"
#include "scenario/scenario.hpp"
#include "strategies/strategy.hpp"

namespace lockstep {

// Adds misfits for nodes and ranks that are named twice (also a rank and its node), for too many
// kinds of devices, and for CPUs among GPUs.
void check_other_devices(const Scenario& scenario, const Inputs& inputs, Misfits& misfits);

// Ranks of the job that have this device, because the scenario names the rank or its node.
std::vector<int> ranks_with(const OtherDevice& other, const Job& job);

// Adds to each queued work (costs/cost.hpp) in the job's costs the additional seconds on each other
// device. Sets the device of each rank. The memory limit of every rank becomes the smallest memory
// among the platform's device and the other devices that ranks of this job have. Does nothing if
// the scenario names no other devices.
// REQUIRES: job.costs and job.slices are set, job.stragglers is the scenario's.
void use_other_devices(const Scenario& scenario, const Inputs& inputs, Job& job);

}  // namespace lockstep
