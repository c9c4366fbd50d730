// Ranks with other devices than the platform's (`stragglers.other_devices`): their checks, and the
// costs of their work. expand() applies them to each job.
#pragma once

#include <vector>

#include "points/inputs.hpp"
#include "points/misfits.hpp"
#include "scenario/scenario.hpp"
#include "strategies/strategy.hpp"

namespace lockstep {

// Adds misfits for nodes and ranks that are named twice, too many kinds of devices, and CPUs among
// GPUs.
void check_other_devices(const Scenario& scenario, const Inputs& inputs, Misfits& misfits);

// Ranks of the job that have this device, directly or by their node.
std::vector<int> ranks_with(const OtherDevice& other, const Job& job);

// Adds to the job's costs the extra time of each piece of work on each other device, and to the job
// the kind of each rank's device. The smallest memory of all devices becomes the limit of every
// rank.
// REQUIRES: job.costs and job.slices are set, job.stragglers is the scenario's.
void use_other_devices(const Scenario& scenario, const Inputs& inputs, Job& job);

}  // namespace lockstep
